/* SPDX-License-Identifier: BSD-3-Clause */

/* An agent: its part of the directory, and who may make a store of which name. See
 * pool_directory.h. */

#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "move/rma.h"

static void say(struct loci_agent_job *job, int status, const char *text)
{
    job->reply.status = status;
    snprintf(job->reply.text, sizeof job->reply.text, "%s", text);
}

/* ---- claims ---- */

static struct loci_agent_job *take_claiming(struct loco_agent *a, uint64_t claim)
{
    struct loci_agent_job **at = &a->claiming, *job;

    while ((job = *at) != NULL && job->claim != claim)
        at = &job->next;
    if (job != NULL)
        *at = job->next;
    return job;
}

/* Who has asked looks at the directory again, unless it is told what is wrong. */
static void refuse_name(struct loci_agent_job *job, int status)
{
    if (status == LOCO_ERR_EXISTS)
        say(job, LOCO_OK, "");
    else if (status == LOCO_ERR_PEER_DEAD)
        say(job, status, "the store is kept by an agent that is out of reach: loco-agent status "
            "says which. loco_pool_remove() gives the name free, and what was in the store up");
    else
        say(job, status, loco_strerror(status));
    loci_agent_answer(job);
}

static void claimed(void *ctx, uint64_t claim, int status)
{
    struct loci_agent_job *job = take_claiming(ctx, claim);

    if (job == NULL)
        return;
    if (status == LOCO_OK)
        loci_agent_send_job(job);
    else
        refuse_name(job, status);
}

static struct loci_agent_job *new_job(struct loco_agent *a, uint64_t client,
                                      const struct loci_pool_request *request)
{
    struct loci_agent_job *job = calloc(1, sizeof *job);

    if (job == NULL)
        return NULL;
    job->agent = a;
    job->client = client;
    job->request = *request;
    return job;
}

int loci_agent_make(struct loco_agent *a, uint64_t client,
                    const struct loci_pool_request *request)
{
    struct loci_agent_job *job = new_job(a, client, request);
    int status;

    if (job == NULL)
        return LOCO_ERR_NO_MEMORY;
    if (a->directory.stores >= LOCO_POOL_STORES_MAX
        && loci_directory_find(&a->directory, request->name) == NULL) {
        snprintf(job->reply.text, sizeof job->reply.text,
                 "there are %d stores, which is the most", LOCO_POOL_STORES_MAX);
        job->reply.status = LOCO_ERR_FULL;
        loci_agent_answer(job);
        return LOCO_OK;
    }
    job->next = a->claiming;            /* before, since it may be decided at once */
    a->claiming = job;
    status = loci_directory_claim(&a->directory, request->name, &job->claim);
    if (status != LOCO_OK) {
        a->claiming = job->next;
        refuse_name(job, status);
    }
    return LOCO_OK;
}

/* ---- removing ---- */

int loci_agent_remove(struct loco_agent *a, uint64_t client,
                      const struct loci_pool_request *request)
{
    struct loci_agent_job *job = new_job(a, client, request);
    int status;

    if (job == NULL)
        return LOCO_ERR_NO_MEMORY;
    status = loci_directory_remove(&a->directory, request->name);
    if (status == LOCO_OK) {
        loci_agent_send_job(job);
        return LOCO_OK;
    }
    status = loci_directory_forget(&a->directory, request->name);
    say(job, status == LOCO_ERR_STATE ? LOCO_ERR_NOT_FOUND : status,
        status == LOCO_OK ? "" : "there is no such store in the pool");
    loci_agent_answer(job);
    return LOCO_OK;
}

/* ---- errands that come back ---- */

/* The directory is full, which it is only of stores that were made twice. */
static void take_down(struct loci_agent_job *made)
{
    struct loci_agent_job *job = new_job(made->agent, 0, &made->request);

    if (job == NULL)
        return;
    job->request.ask = LOCI_POOL_REMOVE;
    loci_agent_send_job(job);
}

void loci_agent_came_back(struct loci_agent_job *job)
{
    struct loci_directory *d = &job->agent->directory;
    bool makes = job->request.ask == LOCI_POOL_MAKE;
    int status;

    if (makes && job->reply.status != LOCO_OK) {
        loci_directory_not_made(d, job->claim);
    } else if (makes) {
        status = loci_directory_made(d, job->claim, &job->record);
        if (status != LOCO_OK) {
            say(job, status, "the pool's directory is full");
            take_down(job);
        }
    }
    loci_agent_answer(job);
}

/* ---- life ---- */

static const struct loci_directory_ops ops = { .send = loci_agent_send_news, .claimed = claimed };

void loci_agent_directory_open(struct loco_agent *a)
{
    struct loci_agent_record self = {
        .identity = a->rt->address.identity, .node = a->rt->address.node,
        .carrier = a->rt->address.carrier, .pid = (uint64_t)getpid(), .born = a->born,
    };

    (void)gethostname(self.machine, sizeof self.machine - 1);
    memcpy(self.place, a->place, sizeof self.place);
    loci_directory_open(&a->directory, a->rt, loci_mem_ptr(&a->table), &self, &ops, a);
}

void loci_agent_directory_close(struct loco_agent *a)
{
    struct loci_agent_job *job;

    while ((job = a->claiming) != NULL) {
        a->claiming = job->next;
        free(job);
    }
    loci_directory_close(&a->directory);
}
