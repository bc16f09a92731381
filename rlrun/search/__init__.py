"""Which configurations are tried and which trials go on: searchers, rules, and what they write down."""
