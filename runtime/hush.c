/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "hush.h"

#include <errno.h>
#include <time.h>

void loci_hush(struct loci_hush *h)
{
    sigemptyset(&h->held);
    sigaddset(&h->held, SIGXFSZ);
    sigaddset(&h->held, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &h->held, &h->before);
    sigpending(&h->waiting);
}

void loci_unhush(struct loci_hush *h, int error)
{
    const struct timespec now = { 0 };
    int sig = error == EFBIG ? SIGXFSZ : error == EPIPE ? SIGPIPE : 0, kept = errno;
    sigset_t raised;

    if (sig != 0 && sigismember(&h->waiting, sig) == 0) {
        sigemptyset(&raised);
        sigaddset(&raised, sig);
        while (sigtimedwait(&raised, NULL, &now) < 0 && errno == EINTR)
            ;
    }
    pthread_sigmask(SIG_SETMASK, &h->before, NULL);
    errno = kept;
}
