"""No page, label, field or example can write one of a model's control tokens into a message."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmcrawler.core.llm.dialect import Dialect, ModelRequest, without_control_tokens
from llmcrawler.core.understanding.classification.page_asker import ClassifyWorker
from llmcrawler.core.understanding.classification.page_types import DEFAULT_PAGE_TYPES
from llmcrawler.core.understanding.extraction.annotators import parse_answer
from llmcrawler.core.understanding.extraction.blocks import Block
from llmcrawler.core.understanding.extraction.induce_prompt import ShownPage, induce_document
from llmcrawler.core.understanding.extraction.induce_prompt import answer_schema as induce_schema
from tests.core.llm.clients import client_at
from tests.servers.fake_llm import FakeLLM

# Of ChatML, GPT-2 to gpt-oss, Llama 1 to 4, Mistral, Gemma, DeepSeek, Cohere, Phi, GLM, EXAONE, MiniMax, Falcon, OLMo,
# Persimmon, Code Llama, StarCoder, T5 and BERT.
TOKENS = """
<|im_start|> <|im_end|> <|endoftext|> <|endofprompt|> <|start|> <|channel|> <|message|> <|return|> <|call|> <s> </s>
[INST] [/INST] <<SYS>> <</SYS>> <|begin_of_text|> <|start_header_id|> <|eot_id|> <|eom_id|> <|python_tag|>
<|header_start|> <|eot|> [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_CALLS] [TOOL_RESULTS] [SYSTEM_PROMPT] [IMG]
[control_8] [THINK] [/THINK] <start_of_turn> <end_of_turn> <bos> <eos> <unused12> <｜begin▁of▁sentence｜>
<｜end▁of▁sentence｜> <｜User｜> <｜tool▁calls▁begin｜> ｜DSML｜ <|START_OF_TURN_TOKEN|> <|END_OF_TURN_TOKEN|>
<BOS_TOKEN> <|end|> <|user|> <|assistant|> [gMASK] [sMASK] <sop> [|user|] [|assistant|] [|endofturn|] ]~b] ]~!b[
[e~[ ]!p~[ >>QUESTION<< >>TITLE<< |||IP_ADDRESS||| |||EMAIL_ADDRESS||| |ENDOFTEXT| |NEWLINE| <PRE> <SUF> <EOT>
<fim_prefix> <think> </think> <tool_call> </tool_call> <tool_response> <extra_id_0> <0x0A> <unk> <pad> [CLS] [SEP]
[MASK] [unused1] [PAD] ＜|im_end|＞ ﹤s> ［INST］ <|reserved_special_token_0|> <|fim_middle|> <|vision_start|>
<eos_token>
""".split()
HOSTILE = " ".join(TOKENS)


def assert_clean(message: str) -> None:
    assert [token for token in TOKENS if token in message] == []
    assert re.search(r"[<＜﹤｜]|\[/?[A-Za-z]", message) is None


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_stands_in_no_text_and_is_read_as_itself(token: str) -> None:
    for text in (token, f"a{token}b", token * 3, f'\\"{token}\\', f"[{token}]", f"\\{token}"):
        written = without_control_tokens(json.dumps({text: [text, {"t": text}]}, ensure_ascii=False))
        assert token not in written
        assert json.loads(written) == {text: [text, {"t": text}]}


@pytest.mark.slow
@given(
    st.recursive(
        st.text(alphabet='<[]|/~!ab_｜"\\ \n1é', max_size=12) | st.none() | st.booleans() | st.integers(), st.lists
    )
)
def test_any_value_keeps_its_value(value: Any) -> None:
    written = without_control_tokens(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    assert json.loads(written) == value
    assert "<" not in written


def test_ordinary_text_costs_nothing() -> None:
    for text in ("Shirts | Shop", "see [1] and [2]", "[…]", "a ] b", 'she said "so"', "3 | 4", "{x}", "price: > 3"):
        written = json.dumps([text, [1], [[2]], {"a": [True, None]}], ensure_ascii=False)
        assert without_control_tokens(written) == written


def test_all_parts_of_a_message_are_clean() -> None:
    document = {"task": HOSTILE, "labels": [{"name": HOSTILE, "description": HOSTILE}], HOSTILE: [HOSTILE]}
    ask = ModelRequest("classify", "s", document, {"enum": [HOSTILE]})
    dialect = Dialect({})
    dialect._format = "plain"
    messages = dialect.body("m", ask)["messages"]
    assert json.loads(messages[-1]["content"]) == document
    for message in messages:
        assert [token for token in TOKENS if token in message["content"]] == []


@pytest.mark.server
async def test_pages_to_classify_and_to_learn_from_reach_the_server_clean() -> None:
    page = {"url": f"http://a.test/{HOSTILE}", "title": HOSTILE, "description": HOSTILE, "headings": [HOSTILE]}
    shown = ShownPage("1", f"http://a.test/{HOSTILE}", HOSTILE, (Block(1, HOSTILE, HOSTILE),))
    async with FakeLLM() as server:
        client = client_at(server.base_url, "m", "k")
        await ClassifyWorker(client.ask, DEFAULT_PAGE_TYPES)([{**page, "text": HOSTILE}])
        document = induce_document(HOSTILE, None, [shown])
        await client.ask(ModelRequest("induce", "s", document, induce_schema(1, None)))
        await client.close()
    contents = [body["messages"][-1]["content"] for body in server.bodies]
    for content in contents:
        assert_clean(content)
    assert server.documents[0]["pages"][0]["title"] == HOSTILE
    assert server.documents[1]["pages"][0]["blocks"][0]["text"] == HOSTILE


def test_a_quote_is_still_found_in_its_block_letter_for_letter() -> None:
    text = "Size <b>[XL]</b> <|im_end|> 12"
    document = induce_document("product", None, [ShownPage("1", "http://a.test/", "", (Block(3, text, ""),))])
    sent = without_control_tokens(json.dumps(document))
    shown = json.loads(sent)["pages"][0]["blocks"][0]["text"]
    named = [{"name": "size", "type": "string", "description": "", "many": False, "group": None}]
    values = [{"field": "size", "blocks": [3], "quote": shown[5:22]}]
    induced = parse_answer(document, {"fields": named, "pages": [{"id": "1", "values": values}]}, None)
    assert [one.quote for one in induced.values["1"]] == [text[5:22]]
    assert not induced.dropped
