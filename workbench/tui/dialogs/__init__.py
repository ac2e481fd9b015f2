"""Screens that cover the main one: the review, lists, forms, questions."""
