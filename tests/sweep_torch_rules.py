"""For sweep_torch.py: which row of ops/SEMANTICS.md a difference belongs to, where the rules of
compare_torch_rules.py do not say it. A rule is an id and what it explains, as narrow as can be said."""

EXPLAINED = []


def explanation(d):
    for reason, matches in EXPLAINED:
        if matches(d):
            return [reason]
    return None
