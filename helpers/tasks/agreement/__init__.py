"""Prompts that end right before a verb whose number their head noun decides.

``lexicon`` holds the nouns and their split, ``templates`` the sentences, ``generate`` the balanced
sets of prompts, ``verbs`` the verb pairs of a tokenizer, ``controls`` token pairs that have nothing
to do with number.
"""
