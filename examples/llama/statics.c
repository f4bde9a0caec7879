/* Prints the options of pkc for a model: llama_statics FOLDER. */
#include "config.h"
#include "tensors.h"

#include <stdio.h>

const char program_name[] = "llama";

int main(int argc, char **argv) {
  char path[4096], statics[STATICS];
  Config config;
  if (argc != 2) return fputs("usage: llama_statics FOLDER\n", stderr), 2;
  if (snprintf(path, sizeof path, "%s/config.json", argv[1]) >= (int)sizeof path)
    return wrong(argv[1], "the path is too long"), 1;
  if (!config_read(&config, path)) return 1;
  config_statics(&config, statics);
  puts(statics);
  return 0;
}
