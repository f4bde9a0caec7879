// The program that AFL++ runs: `afl FEED` reads inputs from AFL, or one from standard input.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/fuzzing/feed.h"

#ifdef __AFL_FUZZ_TESTCASE_LEN
__AFL_FUZZ_INIT();
#endif

int main(int argc, char **argv) {
  const Feed *feed = argc == 2 ? feed_find(argv[1]) : NULL;
  if (!feed) {
    fprintf(stderr, "usage: afl FEED <INPUT\n");
    for (int i = 0; i < feed_count; i++)
      fprintf(stderr, "  %-8s starts from %s\n", feeds[i].name, feeds[i].corpus);
    return 2;
  }
#ifdef __AFL_FUZZ_TESTCASE_LEN
  __AFL_INIT();
  const unsigned char *bytes = __AFL_FUZZ_TESTCASE_BUF;
  while (__AFL_LOOP(500)) feed->feed((const char *)bytes, (size_t)__AFL_FUZZ_TESTCASE_LEN);
#else
  static char bytes[1 << 20];
  feed->feed(bytes, fread(bytes, 1, sizeof bytes, stdin));
#endif
  return 0;
}
