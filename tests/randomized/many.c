/* Runs many commands of pkc, each in a child that begins where the compiler is already loaded:
 *
 *     many FILE SECONDS
 *
 * FILE holds one word a line; an empty line ends a command. For each command it prints a line with
 * its status, or 1000 + the signal that ended it, and the length of what the command wrote to
 * standard error, which follows. A command that takes longer than SECONDS is ended by SIGALRM. */
#define _GNU_SOURCE
int pkc_main(int argc, char **argv);
#define main pkc_main
#include "codegen/verbs/main.c"
#undef main

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { MOST_WORDS = 256, DIED = 1000 };

static void stop(const char *what) {
  perror(what);
  exit(2);
}

static char *contents(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) stop(path);
  size_t length = (size_t)ftell(file);
  char *text = malloc(length + 1);
  rewind(file);
  if (!text || fread(text, 1, length, file) != length) stop(path);
  text[length] = 0;
  fclose(file);
  return text;
}

/* Takes the words of a command from *text; NULL ends them. */
static int take_words(char **text, char **words) {
  int count = 0;
  while (**text && **text != '\n' && count < MOST_WORDS - 1) {
    char *end = strchr(*text, '\n');
    if (!end) stop("a word without an end");
    *end = 0;
    words[count++] = *text;
    *text = end + 1;
  }
  if (**text) ++*text;
  words[count] = NULL;
  return count;
}

static int run_in_child(int argc, char **argv, unsigned seconds, int errors) {
  pid_t child = fork();
  if (child < 0) stop("fork");
  if (child == 0) {
    int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, 0);
    dup2(nothing, 1);
    dup2(errors, 2);
    alarm(seconds);
    exit(pkc_main(argc, argv));
  }
  int status;
  if (waitpid(child, &status, 0) < 0) stop("waitpid");
  return WIFSIGNALED(status) ? DIED + WTERMSIG(status) : WEXITSTATUS(status);
}

static void report(int status, int errors) {
  off_t length = lseek(errors, 0, SEEK_END);
  char *text = malloc((size_t)length + 1);
  if (!text || pread(errors, text, (size_t)length, 0) != length) stop("read");
  printf("%d %lld\n", status, (long long)length);
  fwrite(text, 1, (size_t)length, stdout);
  free(text);
  if (ftruncate(errors, 0) || lseek(errors, 0, SEEK_SET)) stop("truncate");
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  char *text = contents(argv[1]), *words[MOST_WORDS] = {"pkc"};
  int errors = memfd_create("errors", 0);
  if (errors < 0) stop("memfd_create");
  while (*text) {
    int count = take_words(&text, words + 1);
    fflush(stdout);
    report(run_in_child(count + 1, words, (unsigned)atoi(argv[2]), errors), errors);
  }
  return fflush(stdout) ? 2 : 0;
}
