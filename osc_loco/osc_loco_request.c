/* SPDX-License-Identifier: BSD-3-Clause */

/* Requests of rput, rget, raccumulate, rget_accumulate. Where the operation is over when it
 * returns, as within a node, the answer is Open MPI's empty request. Else a request of ours stays
 * on a list until its ack is complete; MPI's progress engine, which test and wait run, looks. It
 * also lets a process that waits in MPI help its peers, as waits of ours do. */

#include "osc_loco.h"

#include "opal/runtime/opal_progress.h"

#include "wait.h"

struct ompi_osc_loco_request {
    ompi_request_t super;
    loco_ack_t ack;
    struct ompi_osc_loco_request *next;
};
typedef struct ompi_osc_loco_request ompi_osc_loco_request_t;   /* for the macros of classes */
OBJ_CLASS_DECLARATION(ompi_osc_loco_request_t);

#define REQUESTS (&mca_osc_loco_component.requests)

static int request_free(struct ompi_request_t **request)
{
    struct ompi_osc_loco_request *mine = (struct ompi_osc_loco_request *)*request;

    if (!REQUEST_COMPLETE(&mine->super))
        return MPI_ERR_REQUEST;
    OMPI_REQUEST_FINI(&mine->super);
    opal_free_list_return(&REQUESTS->free, &mine->super.super);
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

/* The standard allows no cancelling of RMA. */
static int request_cancel(struct ompi_request_t *request, int flag)
{
    (void)request;
    (void)flag;
    return MPI_ERR_REQUEST;
}

static void request_construct(struct ompi_osc_loco_request *request)
{
    request->super.req_type = OMPI_REQUEST_WIN;
    request->super.req_free = request_free;
    request->super.req_cancel = request_cancel;
}

OBJ_CLASS_INSTANCE(ompi_osc_loco_request_t, ompi_request_t, request_construct, NULL);

/* Unlink and return those whose ack is complete. */
static struct ompi_osc_loco_request *take_finished(void)
{
    struct ompi_osc_loco_request **link, *request, *finished = NULL;

    pthread_mutex_lock(&REQUESTS->lock);
    for (link = &REQUESTS->pending; (request = *link) != NULL;) {
        int status = loco_ack_test(mca_osc_loco_component.rt, &request->ack);

        if (status == LOCO_IN_PROGRESS) {
            link = &request->next;
            continue;
        }
        request->super.req_status.MPI_ERROR = ompi_osc_loco_class(status);
        *link = request->next;
        request->next = finished;
        finished = request;
        atomic_fetch_sub_explicit(&REQUESTS->count, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&REQUESTS->lock);
    return finished;
}

static int progress(void)
{
    struct ompi_osc_loco_request *request, *next;
    int n = loci_help(mca_osc_loco_component.rt, loci_mpi_spins());

    if (atomic_load_explicit(&REQUESTS->count, memory_order_relaxed) == 0)
        return n;
    for (request = take_finished(); request != NULL; request = next, n++) {
        next = request->next;
        ompi_request_complete(&request->super, true);
    }
    return n;
}

int ompi_osc_loco_requests_open(void)
{
    int rc;

    pthread_mutex_init(&REQUESTS->lock, NULL);
    OBJ_CONSTRUCT(&REQUESTS->free, opal_free_list_t);
    rc = opal_free_list_init(&REQUESTS->free, sizeof(ompi_osc_loco_request_t), 8,
                             OBJ_CLASS(ompi_osc_loco_request_t), 0, 0, 0, -1, 64, NULL, 0, NULL,
                             NULL, NULL);
    if (rc == OPAL_SUCCESS)
        rc = opal_progress_register(progress);
    REQUESTS->open = rc == OPAL_SUCCESS;
    if (!REQUESTS->open)
        OBJ_DESTRUCT(&REQUESTS->free);
    return rc;
}

void ompi_osc_loco_requests_close(void)
{
    if (!REQUESTS->open)
        return;
    opal_progress_unregister(progress);
    OBJ_DESTRUCT(&REQUESTS->free);
    REQUESTS->open = false;
}

static struct ompi_osc_loco_request *request_new(struct ompi_win_t *win, const loco_ack_t *ack)
{
    struct ompi_osc_loco_request *request
        = (struct ompi_osc_loco_request *)opal_free_list_get(&REQUESTS->free);

    if (request == NULL)
        return NULL;
    OMPI_REQUEST_INIT(&request->super, false);
    request->super.req_mpi_object.win = win;
    request->super.req_state = OMPI_REQUEST_ACTIVE;
    request->super.req_f_to_c_index = MPI_UNDEFINED;
    request->super.req_status = ompi_status_empty;
    request->super.req_status.MPI_ERROR = MPI_SUCCESS;
    request->ack = *ack;
    return request;
}

int ompi_osc_loco_request(struct ompi_win_t *win, int rc, const loco_ack_t *ack,
                          struct ompi_request_t **out)
{
    loco_ack_t copy = *ack;
    struct ompi_osc_loco_request *request;
    int status;

    if (rc != MPI_SUCCESS)
        return rc;
    status = loco_ack_test(mca_osc_loco_component.rt, &copy);
    if (status < LOCO_OK)
        return ompi_osc_loco_class(status);
    if (status == LOCO_OK && !mca_osc_loco_component.late_requests) {
        *out = &ompi_request_empty;
        return MPI_SUCCESS;
    }
    request = request_new(win, &copy);
    if (request == NULL) {
        /* No memory: wait here, which is as good an answer. */
        *out = &ompi_request_empty;
        return ompi_osc_loco_class(loco_ack_wait(mca_osc_loco_component.rt, &copy));
    }
    *out = &request->super;
    pthread_mutex_lock(&REQUESTS->lock);
    request->next = REQUESTS->pending;
    REQUESTS->pending = request;
    atomic_fetch_add_explicit(&REQUESTS->count, 1, memory_order_relaxed);
    pthread_mutex_unlock(&REQUESTS->lock);
    return MPI_SUCCESS;
}
