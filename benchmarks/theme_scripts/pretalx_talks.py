"""Fill a pretalx with talks in JSON on standard input, and write their pages; argument: a folder."""

import json
import sys
from datetime import datetime, timedelta
from pathlib import Path

import django

django.setup()

from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402
from django.utils.timezone import make_aware  # noqa: E402
from django_scopes import scopes_disabled  # noqa: E402

call_command("migrate", verbosity=0)

from pretalx.event.models import Event, Organiser  # noqa: E402
from pretalx.person.models import SpeakerProfile, User  # noqa: E402
from pretalx.schedule.models import Room  # noqa: E402
from pretalx.submission.models import Submission, Track  # noqa: E402

task = json.load(sys.stdin)
with scopes_disabled():
    days = sorted(datetime.fromisoformat(one["start_date"]) for one in task["events"])
    organiser = Organiser.objects.create(name="Verein", slug="verein")
    event = Event.objects.create(
        name="Herbsttagung",
        slug="tagung",
        organiser=organiser,
        date_from=days[0].date(),
        date_to=days[-1].date() + timedelta(days=1),
        timezone="UTC",
        email="tagung@post.example",
        locale=task["language"],
        locale_array=task["language"],
        content_locale_array=task["language"],
    )
    event.build_initial_data()
    rooms, tracks, talks = {}, {}, []
    for n, one in enumerate(task["events"]):
        room = rooms.setdefault(one["room"], None) or Room.objects.create(event=event, name=one["room"])
        track = tracks.setdefault(one["category"], None) or Track.objects.create(
            event=event, name=one["category"], color="#226688"
        )
        rooms[one["room"]], tracks[one["category"]] = room, track
        kind = event.cfp.default_type
        talk = Submission.objects.create(
            event=event,
            title=one["title"],
            submission_type=kind,
            track=track,
            abstract=one["abstract"],
            description=one["description"],
        )
        speaker = User.objects.create_user(email=f"s{n}@post.example", name=one["speaker"], password="x")
        SpeakerProfile.objects.create(event=event, user=speaker, biography=one["biography"] or "")
        talk.speakers.add(speaker)
        talk.accept(force=True)
        talk.confirm(force=True)
        start = make_aware(datetime.fromisoformat(one["start_date"]))
        talk.slots.update(start=start, end=start + timedelta(minutes=45), room=room)
        talks.append(talk)
    event.wip_schedule.freeze("1.0")
    event.is_public = True
    event.save()
    client = Client(HTTP_ACCEPT_LANGUAGE=task["language"], HTTP_HOST="localhost")
    client.cookies["pretalx_language"] = task["language"]
    paths = []
    for n, talk in enumerate(talks):
        answer = client.get(f"/tagung/talk/{talk.code}/", follow=True)
        assert answer.status_code == 200, (answer.status_code, answer.content[:300])
        (Path(sys.argv[1]) / f"{n}.html").write_bytes(answer.content)
        paths.append(f"/tagung/talk/{talk.code}/")
print(json.dumps(paths))
