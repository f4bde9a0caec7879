# The rows of docs/language.md that describe functions, as rows MANUAL(name, calls, dtypes or "", text) of C.
# Markdown tables: `| calls | meaning |`, or with a column between them: of dtypes, where its head is `on`.
function quoted(text) {
  gsub(/\001/, "|", text)
  gsub(/\\/, "\\\\", text)
  gsub(/"/, "\\\"", text)
  sub(/^ +/, "", text)
  sub(/ +$/, "", text)
  return "\"" text "\""
}
/^\| function \|/ { inside = 1; split($0, head, "|"); on = head[3] == " on " }
!/^\|/ { inside = 0 }
inside && /^\| `[a-z_]/ || /^\| `[a-z_][a-z_0-9]*\(/ {
  gsub(/\\\|/, "\001")
  columns = split($0, cell, "|") - 2
  if (columns != 2 && columns != 3) next
  calls = cell[2]
  pieces = split(calls, piece, "`")
  delete seen
  for (i = 2; i <= pieces; i += 2) {
    name = piece[i]
    sub(/[^a-z_0-9].*/, "", name)
    if (name == "" || name in seen) continue
    seen[name]
    print "MANUAL(" quoted(name) ", " quoted(calls) ", " quoted(columns == 3 && on ? cell[3] : "") ", " quoted(cell[columns + 1]) ")"
  }
}
