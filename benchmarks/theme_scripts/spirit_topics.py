"""Fill a Spirit forum with threads in JSON on standard input, and write their pages; argument: a folder."""

import json
import os
import sys
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path.cwd()))
os.environ["DJANGO_SETTINGS_MODULE"] = "forum.settings.dev"

import django

django.setup()

from django.contrib.auth import get_user_model  # noqa: E402
from django.test import Client  # noqa: E402
from django.utils.timezone import make_aware  # noqa: E402
from spirit.category.models import Category  # noqa: E402
from spirit.comment.models import Comment  # noqa: E402
from spirit.topic.models import Topic  # noqa: E402

task = json.load(sys.stdin)
users = get_user_model()


known = {}


def user(name):
    if name not in known:
        number = len(known) + 2
        known[name] = users.objects.create(username=f"member{number}", email=f"member{number}@post.example")
        known[name].st.nickname = name
        known[name].st.save()
    return known[name]


topics = []
for thread in task["threads"]:
    category, _ = Category.objects.get_or_create(title=thread["category"])
    when = make_aware(datetime.fromisoformat(thread["posts"][0]["date"]))
    topic = Topic.objects.create(
        user=user(thread["author"]),
        category=category,
        title=thread["title"],
        date=when,
        last_active=when,
        view_count=thread["views"],
    )
    topic.comment_count = len(thread["posts"])
    topic.save()
    for post in thread["posts"]:
        Comment.objects.create(
            user=user(post["author"]),
            topic=topic,
            comment=post["text"],
            comment_html=f"<p>{post['text']}</p>",
            date=make_aware(datetime.fromisoformat(post["date"])),
        )
    topics.append(topic)
client = Client(HTTP_ACCEPT_LANGUAGE=task["language"], HTTP_HOST="127.0.0.1")
paths = []
for n, topic in enumerate(topics):
    answer = client.get(topic.get_absolute_url(), follow=True)
    assert answer.status_code == 200, answer.status_code
    (Path(sys.argv[1]) / f"{n}.html").write_bytes(answer.content)
    paths.append(topic.get_absolute_url())
print(json.dumps(paths))
