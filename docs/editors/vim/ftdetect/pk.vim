" Vim itself takes *.pk for GNU poke, and `setfiletype` would keep that.
autocmd BufNewFile,BufRead *.pk set filetype=pk
