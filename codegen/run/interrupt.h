// Handlers of SIGINT, SIGTERM and SIGHUP, which leave no child and no temporary folder.
#ifndef CODEGEN_INTERRUPT_H
#define CODEGEN_INTERRUPT_H

#include <sys/types.h>

void interrupt_watch(void);  // once, at the start; ignored signals stay ignored
pid_t interrupt_fork(void);  // the child leads its own process group, which ends with this process
void interrupt_child_ended(void);  // after the child was waited for
// Ends all processes of such a child's group and waits for them; SIGTERM first, SIGKILL after a
// second.
void interrupt_end_group(pid_t leader, int *status);
void interrupt_with_parent(
    pid_t parent);  // if the parent ends for any reason, the process receives SIGTERM
// In a child that continues as pkc: its parent removes what it inherited.
void interrupt_forget_all(void);
// a folder for build.c's files, removed if a signal ends the process
void interrupt_keep_folder(const char *path);
void interrupt_forget_folder(const char *path);  // the folder no longer exists

#endif
