"""Make a library for Calibre-Web, a metadata.db as of Calibre, of books in JSON on standard input, in a folder."""

import json
import sys
from datetime import datetime
from pathlib import Path

from calibreweb.cps import db
from sqlalchemy import Float, create_engine
from sqlalchemy.orm import Session

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
(folder / "metadata.db").unlink(missing_ok=True)
engine = create_engine(f"sqlite:///{folder}/metadata.db").execution_options(schema_translate_map={"calibre": None})
db.Books.__table__.c.series_index.type = Float()  # as Calibre has it
db.Base.metadata.create_all(engine)
with engine.begin() as connection:
    connection.exec_driver_sql("create table if not exists library_id (id integer primary key, uuid text not null)")
    connection.exec_driver_sql("insert into library_id (uuid) values ('3e1f4b9c-0000-4000-8000-000000000000')")
with Session(engine) as session:
    kept = {}

    def one(kind, name, *more):
        key = (kind, name)
        if key not in kept:
            kept[key] = kind(name, *more)
            session.add(kept[key])
        return kept[key]

    for book in json.load(sys.stdin):
        when = datetime.fromisoformat(book["date_published"])
        row = db.Books(book["title"], book["title"], book["author"], when, when, "1.0", when, "", None, [], [])
        row.series_index = float(book["series_index"])
        row.authors.append(one(db.Authors, book["author"], book["author"]))
        row.tags.extend(one(db.Tags, tag) for tag in book["tags"] or ())
        row.languages.append(one(db.Languages, book["language"]))
        if book["publisher"]:
            row.publishers.append(one(db.Publishers, book["publisher"], book["publisher"]))
        if book["series"]:
            row.series.append(one(db.Series, book["series"], book["series"]))
        if book["rating"]:
            row.ratings.append(one(db.Ratings, 2 * book["rating"]))
        session.add(row)
        session.flush()
        session.add(db.Comments(f"<p>{book['description']}</p>", row.id))
        if book["isbn"]:
            session.add(db.Identifiers(book["isbn"], "isbn", row.id))
    session.commit()
