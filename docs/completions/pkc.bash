# Completion of pkc for bash. The program itself says what may follow: `pkc complete`.
_pkc() {
  local -a words
  local line before text
  # Words as the shell splits them, not at `=` and `:` as it splits COMP_WORDS; a backslash keeps a blank.
  read -a words <<<"${COMP_LINE:0:COMP_POINT}"
  [[ ${COMP_LINE:0:COMP_POINT} == *[!\\][[:space:]] ]] && words+=("")
  # What stands before the last `=` or `:` is not replaced, where these separate words.
  before=${words[-1]}
  if [[ $COMP_WORDBREAKS == *=* && $before == *[=:]* ]]; then before=${before%"${before##*[=:]}"}; else before=; fi
  COMPREPLY=()
  while IFS=$'\t' read -r text _; do
    printf -v line '%q' "${text#"$before"}"
    [[ $text == *[=/:,] ]] && compopt -o nospace
    COMPREPLY+=("${line/#\\~/\~}")
  done < <("${words[0]/#\~\//$HOME/}" complete -- "${words[@]:1}" 2>/dev/null)
}
complete -F _pkc pkc
