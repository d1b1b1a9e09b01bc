from llmcrawler.content import PageReader, read_page

HTML = "<html><title>Long</title><body><p>" + "word " * 500 + "</p></body></html>"


async def test_a_long_page_is_read_in_another_process_with_the_same_result():
    reader = PageReader(inline_chars=100)
    try:
        apart = await reader.read(HTML, "https://x.example/")
    finally:
        reader.close()
    assert apart == read_page(HTML, "https://x.example/")
