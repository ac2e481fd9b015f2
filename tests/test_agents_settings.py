"""Which model is asked, with which key, at which price."""

import pytest

from workbench.agents.model_settings import ModelSettings, key_of, load_models
from workbench.agents.prices import Price, Prices, load_prices, require_prices
from workbench.agents.records import Role, Usage
from workbench.errors import WorkbenchError


def config(tmp_path, text: str):
    path = tmp_path / "config.toml"
    path.write_text(text)
    return path


def test_settings_come_from_the_file_then_the_environment_and_roles_override(tmp_path):
    path = config(
        tmp_path,
        """
[model]
model = "big"
key_env = "MY_KEY"
[model.timeouts]
between_tokens = 5
[model.roles.planner]
model = "small"
temperature = 0.1
""",
    )
    models = load_models(path, {"OPENAI_BASE_URL": "http://localhost:1/v1", "OPENAI_MODEL": "x"})
    assert models.of(Role.OPTIMIZER).model == "big"
    planner = models.of(Role.PLANNER)
    assert (planner.model, planner.temperature, planner.key_env) == ("small", 0.1, "MY_KEY")
    assert planner.base_url == "http://localhost:1/v1"
    assert planner.timeouts.between_tokens == 5
    assert models.names() == ("big", "small")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "no model"),
        ('[model]\nmodel = "m"\ntemprature = 1', "temprature"),
        ('[model]\nmodel = "m"\ntemperature = 9', "temperature"),
        ('[model]\nmodel = "m"\napi_key = "sk-1"', "a key does not belong"),
        ('[model]\nmodel = "m"\nbase_url = "http://u:p@host/v1"', "secret"),
        ('[model]\nmodel = "m"\nbase_url = "host"', "not an http address"),
        ('[model]\nmodel = "m"\nreply_tokens = 200000', "leave no room"),
        ('[model]\nmodel = "m"\n[model.roles.poet]\nmodel = "p"', "poet"),
        ("model = 3", "not a table"),
        ("[model", "cannot be read"),
    ],
)
def test_an_entry_that_cannot_be_used_is_named_with_its_file(tmp_path, text, named):
    path = config(tmp_path, text)
    with pytest.raises(WorkbenchError) as fault:
        load_models(path, {})
    assert named in str(fault.value)
    assert str(path) in str(fault.value)
    assert "sk-1" not in str(fault.value)


def test_a_missing_key_is_told_by_its_name_and_only_loopback_does_without():
    far = ModelSettings(model="m", base_url="https://models.example/v1", key_env="MY_KEY")
    with pytest.raises(WorkbenchError, match="no key") as fault:
        key_of(far, {})
    assert "MY_KEY" in str(fault.value)
    assert key_of(far, {"MY_KEY": " abc\n"}) == "abc"
    assert not key_of(ModelSettings(model="m", base_url="http://127.0.0.1:9/v1"), {})


def test_prices_are_a_persons_table_and_an_unknown_one_gives_no_dollars(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(
        '["big"]\ninput = 2.0\ncached_input = 0.5\noutput = 10\n'
        '["local-*"]\ninput = 0\noutput = 0\n'
    )
    prices = load_prices(path)
    usage = Usage(prompt_tokens=1_000_000, cached_tokens=400_000, reply_tokens=100_000)
    assert prices.cost("big", usage) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 1.0)
    assert prices.cost("local-7b", usage) == 0.0
    assert prices.cost("other", usage) is None
    require_prices(prices, ("big", "local-7b"))
    with pytest.raises(WorkbenchError, match="other"):
        require_prices(prices, ("big", "other"))
    assert load_prices(tmp_path / "none.toml") == Prices()
    path.write_text('["big"]\ninput = -1\noutput = 1\n')
    with pytest.raises(WorkbenchError, match="prices"):
        load_prices(path)
    assert Price(input=1.0, output=2.0).of(usage) == pytest.approx(1.2)
