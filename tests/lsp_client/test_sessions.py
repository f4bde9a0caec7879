"""Sessions with `pkc lsp` by the client of pytest-lsp, which has the capabilities of editors and warns about answers that these do not
allow. tests/lsp_client.py runs it: $PKC is the program."""
import os

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

URI = "file:///k.pk"
TEXT = """fn twice(v) = v + v;
kernel k(x: f32[M, 8]) -> (o: f32[M, 8]) {
  static BM = 2 * 8;
  grid (i in cdiv(M, BM));
  block x, o: [BM, 8] at (i, 0);
  let y = twice(x[...]);
  o[...] = y;
}
"""
DOCUMENT = types.TextDocumentIdentifier(uri=URI)
WHOLE = types.Range(types.Position(0, 0), types.Position(8, 0))


def position(part, after=0):
    """The position of the last letter of a part."""
    at = TEXT.index(part, after) + len(part) - 1
    return types.Position(TEXT.count("\n", 0, at), at - TEXT.rfind("\n", 0, at) - 1)


def asked(kind, part, **more):
    return kind(text_document=DOCUMENT, position=position(part), **more)


@pytest_lsp.fixture(params=["visual_studio_code", "neovim", "emacs"], config=ClientServerConfig(server_command=[os.environ["PKC"], "lsp"]))
async def client(request, lsp_client: LanguageClient):
    @lsp_client.feature(types.WORKSPACE_INLAY_HINT_REFRESH)
    def refresh(*_):
        return None

    await lsp_client.initialize_session(types.InitializeParams(capabilities=client_capabilities(request.param)))
    lsp_client.text_document_did_open(types.DidOpenTextDocumentParams(types.TextDocumentItem(uri=URI, language_id="pk", version=1, text=TEXT)))
    await lsp_client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    yield
    await lsp_client.shutdown_session()


async def change(client, version, text, *where):
    """The messages after an edit, of a part or of the whole."""
    edit = types.TextDocumentContentChangePartial(range=where[0], text=text) if where else types.TextDocumentContentChangeWholeDocument(text=text)
    client.text_document_did_change(types.DidChangeTextDocumentParams(types.VersionedTextDocumentIdentifier(uri=URI, version=version), [edit]))
    await client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    return client.diagnostics[URI]


@pytest.mark.asyncio
async def test_diagnostics_and_actions(client):
    start = position("= y", TEXT.index("o[...]"))
    messages = await change(client, 2, "yy", types.Range(start, types.Position(start.line, start.character + 1)))
    assert [m.message for m in messages] == ["unknown name `yy`; did you mean `y`?"] or "yy" in messages[0].message
    actions = await client.text_document_code_action_async(types.CodeActionParams(DOCUMENT, messages[0].range, types.CodeActionContext(messages)))
    assert [a.title for a in actions] == ["Write `y`"]
    assert not await change(client, 3, TEXT)


@pytest.mark.asyncio
async def test_names(client):
    found = await client.text_document_definition_async(asked(types.DefinitionParams, "let y = t"))
    assert found.range.start == types.Position(0, 3)
    uses = await client.text_document_references_async(asked(types.ReferenceParams, "static BM", context=types.ReferenceContext(include_declaration=True)))
    assert len(uses) == 3
    marks = await client.text_document_document_highlight_async(asked(types.DocumentHighlightParams, "static BM"))
    assert len(marks) == 3
    assert await client.text_document_prepare_rename_async(asked(types.PrepareRenameParams, "static BM"))
    edit = await client.text_document_rename_async(asked(types.RenameParams, "static BM", new_name="ROWS"))
    assert len(edit.changes[URI]) == 3


@pytest.mark.asyncio
async def test_what_is_shown(client):
    hover = await client.text_document_hover_async(asked(types.HoverParams, "k(x"))
    assert "bytes" in hover.contents.value
    hints = await client.text_document_inlay_hint_async(types.InlayHintParams(DOCUMENT, WHOLE))
    assert [h.label for h in hints] == [": f32[BM, 8]", " = 16", ": f32[BM, 8]"]
    tokens = await client.text_document_semantic_tokens_full_async(types.SemanticTokensParams(DOCUMENT))
    assert len(tokens.data) % 5 == 0 and tokens.data
    part = await client.text_document_semantic_tokens_range_async(types.SemanticTokensRangeParams(DOCUMENT, WHOLE))
    assert part.data == tokens.data


@pytest.mark.asyncio
async def test_outline(client):
    symbols = await client.text_document_document_symbol_async(types.DocumentSymbolParams(DOCUMENT))
    assert [s.name for s in symbols] == ["twice", "k"]
    folds = await client.text_document_folding_range_async(types.FoldingRangeParams(DOCUMENT))
    assert (folds[0].start_line, folds[0].end_line) == (1, 6)
    options = types.FormattingOptions(tab_size=2, insert_spaces=True)
    assert await client.text_document_formatting_async(types.DocumentFormattingParams(DOCUMENT, options)) == ()


@pytest.mark.asyncio
async def test_typing(client):
    items = await client.text_document_completion_async(asked(types.CompletionParams, "twice(x"))
    items = getattr(items, "items", items)
    assert {"x", "exp", "twice", "BM"} <= {item.label for item in items}
    signature = await client.text_document_signature_help_async(asked(types.SignatureHelpParams, "twice(x"))
    assert signature.signatures[0].label == "twice(v)"
