"""The tools and the scripted replies that every agent of these tests has in common."""

import json

STEPS = [
    ("call_1", "lookup_order", {"order_id": "A-17", "verbose": True}),
    ("call_2", "issue_refund", {"order": "A-17", "amount": 129.5}),
]
ANSWER = "Order A-17 was refunded."
QUESTION = "Please refund my order A-17."


def lookup_order(order_id: str, verbose: bool = False) -> str:
    """Looks an order up."""
    return json.dumps({"order_id": order_id, "total": 129.5, "note": "gift: „für dich“"})


def issue_refund(order: str, amount: float) -> str:
    """Pays an order back."""
    return json.dumps({"order": order, "refunded": amount})
