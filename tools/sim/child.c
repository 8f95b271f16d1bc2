/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "child.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "case.h"

pid_t sim_child_fork(void)
{
    pid_t parent = getpid(), child = fork();

    if (child != 0)
        return child;
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    return 0;
}

/* Time of the CPU, since a busy machine is nobody's fault; and much more of the clock, for a run
 * that sleeps. The signals end the process. */
void sim_child_limit(double seconds)
{
    struct itimerval cpu = { .it_value = { (time_t)seconds, 0 } };

    cpu.it_value.tv_usec = (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6);
    setitimer(ITIMER_PROF, &cpu, NULL);
    alarm((unsigned)(20 * seconds) + 1);
}

int sim_child_verdict(int status, char *text, size_t len)
{
    int signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

    if (signal_number == SIGPROF || signal_number == SIGALRM) {
        snprintf(text, len, "it did not end in its time of the CPU");
        return SIM_HUNG;
    }
    if (signal_number != 0) {
        snprintf(text, len, "signal %d (%s)", signal_number, strsignal(signal_number));
        return SIM_CRASHED;
    }
    if (WEXITSTATUS(status) != SIM_CHILD_GOOD && WEXITSTATUS(status) != SIM_CHILD_BAD) {
        snprintf(text, len, "the process ended with status %d", WEXITSTATUS(status));
        return SIM_CRASHED;
    }
    return LOCI_SIM_PASSED;
}
