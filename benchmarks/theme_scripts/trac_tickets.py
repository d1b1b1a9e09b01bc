"""Make a Trac environment with tickets in JSON on standard input; argument: its folder."""

import json
import sys
from datetime import UTC, datetime

from trac.env import Environment
from trac.ticket.model import Component, Ticket, Version

task = json.load(sys.stdin)
env = Environment(
    sys.argv[1], create=True, options=[("project", "name", "Werkbank"), ("trac", "default_dateinfo_format", "absolute")]
)
made = {(model, row.name) for model in (Component, Version) for row in model.select(env)}
for issue in task["issues"]:
    for model, name in ((Component, issue["component"]), (Version, issue["version"])):
        if name and (model, name) not in made:
            made.add((model, name))
            row = model(env)
            row.name = name
            row.insert()
    ticket = Ticket(env)
    ticket["summary"] = issue["title"]
    ticket["reporter"] = issue["reporter"]
    ticket["owner"] = issue["assigned_to"] or ""
    ticket["status"] = "assigned" if issue["assigned_to"] else "new"
    ticket["type"] = "defect"
    for name in ("priority", "component", "version", "keywords", "description"):
        ticket[name] = issue[name] or ""
    ticket.insert(when=datetime.fromisoformat(issue["date_created"]).replace(tzinfo=UTC))
