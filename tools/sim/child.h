/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_CHILD_H
#define SIM_CHILD_H

#include <stddef.h>
#include <sys/types.h>

/* Runs happen in child processes: a crash or a hang is then a finding, and what stopped processes
 * leave behind does not pile up. */

/* As fork(); the child ends with its parent, and leaves an interrupt from the terminal to it. */
pid_t sim_child_fork(void);
/* In a child, at the begin of each run: it may take so many seconds of the CPU. */
void sim_child_limit(double seconds);
/* How a child of ours ends. Everything else (a signal, a sanitizer, an exit() in what is simulated)
 * was not its own will. */
enum { SIM_CHILD_GOOD = 100, SIM_CHILD_BAD = 101 };
/* Of a status of waitpid(): SIM_CRASHED or SIM_HUNG with its cause, or LOCI_SIM_PASSED. */
int sim_child_verdict(int status, char *text, size_t len);

#endif
