// Internal to pkc lsp: documents, requests and answers of the Language Server Protocol.
#ifndef CODEGEN_VERBS_LSP_LSP_H
#define CODEGEN_VERBS_LSP_LSP_H

#include "codegen/verbs/verbs.h"

// ---- wire.c: messages on the standard streams

typedef struct {
  Arena *arena;      // for this message only
  const Json *json;  // NULL: it is not JSON
} Message;
typedef struct {
  Buf in;
  size_t at;   // the input before it has been processed
  bool ended;  // the input has ended, or a message has no valid length
  LIST(Message) queue;
  int first;  // in the queue; earlier ones were taken
  Arena *arena;
} Wire;
// Reads the available input; with `wait`, until there is a message or the input ends.
void wire_read(Wire *wire, bool wait);
bool wire_take(Wire *wire, Message *message);  // false: the queue is empty
bool wire_pending(Wire *wire);                 // is there a message, or the end of the input?
// Is there a waiting message that cancels the request with this id?
bool wire_cancels(const Wire *wire, const Json *id);
bool wire_send(const Buf *json);  // false: the output is closed

// ---- document.c

// The messages of lowering one kernel, or of parsing.
typedef LIST(DiagMessage) DiagList;

typedef struct Names Names;
typedef struct Document Document;
struct Document {
  Document *next;
  const char *uri;
  int64_t version;
  Arena *arena;   // for the following fields except the tree: one for each version of the text
  Source source;  // text: of `length` bytes and a NUL
  LIST(uint32_t) lines;  // where each begins; \n, \r\n and \r end one
  bool utf8;             // characters of positions are bytes, else units of UTF-16
  bool bytes;  // characters of positions are bytes in this text, because of utf8 or because it is
               // ASCII
  const Node *file;    // NULL: not parsed yet
  bool parses;         // without errors
  const Names *names;  // NULL: not computed yet
  DiagList messages;
  int lowered;  // all items of the file before this one were lowered
  bool *done;   // by item: was it lowered?
  NameFacts facts;
  bool sorted;            // the facts are in the order of their places
  const Node *explained;  // the kernel whose account is `account`
  const char *account;
  bool published;
  struct {
    uint32_t line, offset;
    int64_t character;
  } last;         // the last position of put_position, which continues from there
  Syntax syntax;  // of the version that was parsed last
  Arena *parsed;  // the arena of that version, if there was an edit afterwards
};

typedef struct {
  Arena *arena;
  Wire wire;
  Document *documents;
  bool initialized, shut_down, left;
  bool utf8;
  bool refreshes;  // the editor can be asked to request the hints again
} Server;

Document *document_find(const Server *server, const char *uri);
void document_open(Server *server, const char *uri, int64_t version, const char *text,
                   size_t length);
// One change of didChange: a text that replaces `range` or, without one, the whole text.
void document_change(Document *document, const Json *change);
void document_close(Server *server, const char *uri);
const Node *document_tree(Document *document);  // parsed at the first request

// The offset of a position of the protocol, which may be outside the text.
uint32_t offset_of(const Document *document, const Json *position);
void put_position(Document *document, Buf *out, const char *key, uint32_t offset);
// The units of positions between two offsets of a line.
int64_t units_between(const Document *document, uint32_t from, uint32_t to);
void put_range(Document *document, Buf *out, const char *key, Span span);
// Writes a location in the document as a member or an element; see LSP, Location.
void put_location(Document *document, Buf *out, const char *key, Span span);
int line_number(const Document *document, uint32_t offset);

// ---- check.c: the errors and warnings of a document, which are computed while no request waits

// Does a part of the work; false: there is none.
bool check_some(Server *server);
void publish(Document *document);
// The index of the kernel or program of that name among a file's items; -1: there is none.
int entry_named(const Node *file, const char *name);
// Lowers the kernels that overlap a part of the text, so that their facts are known.
void check_part(Document *document, Span part);

// ---- facts.c

// The fact about the name at `name`; NULL: none is known. Names in a function may have different
// facts in different calls: then the first one is returned, and `*several` is set.
const NameFact *fact_of(Document *document, Span name, bool *several);
// The lines of `pkc explain` about a line (from 1) of a kernel or program, or about a name in its
// tables, indented; "" if there are none.
const char *explained_line(Document *document, const Node *entry, int line);
const char *explained_name(Document *document, const Node *entry, const char *name);

// ---- requests

typedef struct {
  Server *server;
  Arena *arena;
  const Json *params;
  Document *document;  // of params.textDocument, or NULL
  Buf out;             // the answer up to "id"; the function adds "result", or nothing: null
  int error;           // not 0: the code of an error, and its message
  const char *said;
} Request;

// Error codes of JSON-RPC and the protocol.
enum {
  RPC_PARSE_ERROR = -32700,
  RPC_INVALID_REQUEST = -32600,
  RPC_METHOD_NOT_FOUND = -32601,
  RPC_INVALID_PARAMS = -32602,
  RPC_NOT_INITIALIZED = -32002,
  RPC_CANCELLED = -32800,
  RPC_FAILED = -32803
};
static inline void request_fail(Request *r, int error, const char *said) {
  r->error = error;
  r->said = said;
}

typedef void Handler(Request *r);
#define REQUEST(method, function, ...) Handler lsp_##function;
#define NOTIFICATION(method, function) Handler lsp_##function;
#include "codegen/verbs/lsp/methods.def"

#endif
