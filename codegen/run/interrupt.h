// SIGINT, SIGTERM and SIGHUP leave no child and no temporary folder behind.
#ifndef CODEGEN_INTERRUPT_H
#define CODEGEN_INTERRUPT_H

#include <sys/types.h>

void interrupt_watch(void);  // once, at the start; signals that are ignored stay so
pid_t interrupt_fork(void);  // the child leads a group of its own, which ends with this process
void interrupt_child_ended(void);  // .. and was waited for
// Ends all processes of such a child's group and waits for them; they have a second to do so
// themselves.
void interrupt_end_group(pid_t leader, int *status);
void interrupt_with_parent(pid_t parent);  // its end, of whatever cause, is a SIGTERM
// In a child that goes on as pkc: what it inherited is its parent's to remove.
void interrupt_forget_all(void);
// a folder for build.c's files, removed if a signal ends the process
void interrupt_keep_folder(const char *path);
void interrupt_forget_folder(const char *path);  // it is gone

#endif
