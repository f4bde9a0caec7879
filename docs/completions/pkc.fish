# Completion of pkc for fish. The program itself says what may follow: `pkc complete`.
function __pkc_complete
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    set -l program (string replace -r '^~/' "$HOME/" -- $words[1])
    $program complete -- $words[2..-1] (string unescape -- $last; or echo $last) 2>/dev/null
end
complete -c pkc -f -a '(__pkc_complete)'
