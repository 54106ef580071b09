/* SPDX-License-Identifier: Apache-2.0 */
/* A link over UCX: worker addresses and active messages. A module by itself, which has nothing of
 * the program but its headers. */
#include "comm/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <ucp/api/ucp.h>

enum { MESSAGE = 1, CLOSE_TURNS = 1 << 20 };

/* A message under way: its head, which UCX reads until it has left, or reads its bytes into place
 * for. */
typedef struct request {
    struct request *next; /* of those that are free */
    whim_link *link;
    int32_t node;
    whim_link_head head;
} request;

typedef struct peer {
    whim_link *link;
    int32_t node;
    bool failed;
    ucp_ep_h ep;
} peer;

struct whim_link {
    whim_link_cfg cfg;
    ucp_context_h context;
    ucp_worker_h worker;
    int fd;
    peer *peers; /* [n_node] */
    request *free;
    int64_t n_sending, n_taking;
};

static whim_err failed(whim_diag *diag, whim_err err, const char *what, ucs_status_t status)
{
    snprintf(diag->text, sizeof diag->text, "UCX cannot %s: %s", what, ucs_status_string(status));
    return err;
}

static request *request_of(whim_link *link, int32_t node, const whim_link_head *head)
{
    request *r = link->free;
    if (r != NULL) {
        link->free = r->next;
    } else {
        r = malloc(sizeof *r);
    }
    if (r != NULL) {
        *r = (request){.link = link, .node = node, .head = *head};
    }
    return r;
}

static void request_free(request *r)
{
    r->next = r->link->free;
    r->link->free = r;
}

static void lose(whim_link *link, int32_t node, const char *why)
{
    if (!link->peers[node].failed) {
        link->peers[node].failed = true;
        link->cfg.hands.lost(link->cfg.hands.ctx, node, why);
    }
}

/* --- arrivals --------------------------------------------------------------------------------- */

static void taken(void *ucx_request, ucs_status_t status, size_t length, void *user)
{
    request *r = user;
    (void)length;
    r->link->n_taking--;
    if (ucx_request != NULL) {
        ucp_request_free(ucx_request);
    }
    if (status == UCS_OK) {
        r->link->cfg.hands.came(r->link->cfg.hands.ctx, &r->head);
    } else {
        lose(r->link, r->node, ucs_status_string(status));
    }
    request_free(r);
}

/* Long ones lie at the sender's until they are asked for; UCS_OK gives up what is not. */
static ucs_status_t take_long(whim_link *link, const whim_link_head *head, void *data, void *to)
{
    request *r = request_of(link, head->node, head);
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .cb.recv_am = taken,
                                 .user_data = r};
    if (r == NULL) {
        lose(link, head->node, "no memory for what it sends");
        return UCS_OK;
    }
    link->n_taking++;
    ucs_status_ptr_t got =
        ucp_am_recv_data_nbx(link->worker, data, to, (size_t)head->bytes, &param);
    if (UCS_PTR_IS_ERR(got)) {
        taken(NULL, UCS_PTR_STATUS(got), 0, r);
    }
    return UCS_INPROGRESS;
}

static ucs_status_t arrive(void *arg, const void *header, size_t header_bytes, void *data,
                           size_t bytes, const ucp_am_recv_param_t *param)
{
    whim_link *link = arg;
    whim_link_hands *hands = &link->cfg.hands;
    whim_link_head head;
    if (header_bytes != sizeof head) { /* of nobody who has this program */
        return UCS_OK;
    }
    memcpy(&head, header, sizeof head);
    if (head.bytes < 0 || (size_t)head.bytes != bytes) {
        head.bytes = -1;
    }
    void *to = hands->place(hands->ctx, &head);
    if (to == NULL) {
        return UCS_OK;
    }
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        return take_long(link, &head, data, to);
    }
    if (bytes > 0) { /* else there may be no data to copy from */
        memcpy(to, data, bytes);
    }
    hands->came(hands->ctx, &head);
    return UCS_OK;
}

/* --- a link ----------------------------------------------------------------------------------- */

static void ucx_close(whim_link *link);

static ucs_status_t context_make(whim_link *link)
{
    ucp_config_t *config = NULL;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) {
        return status;
    }
    if (link->cfg.device != NULL && link->cfg.device[0] != '\0') {
        status = ucp_config_modify(config, "NET_DEVICES", link->cfg.device);
    }
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
    status = status == UCS_OK ? ucp_init(&params, config, &link->context) : status;
    ucp_config_release(config);
    return status;
}

static ucs_status_t worker_make(whim_link *link)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucs_status_t status = ucp_worker_create(link->context, &params, &link->worker);
    if (status != UCS_OK) {
        link->worker = NULL;
        return status;
    }
    ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = MESSAGE,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb = arrive,
        .arg = link};
    status = ucp_worker_set_am_recv_handler(link->worker, &handler);
    return status == UCS_OK ? ucp_worker_get_efd(link->worker, &link->fd) : status;
}

static whim_err address_get(whim_link *link, whim_link_address *out, whim_diag *diag)
{
    ucp_address_t *address = NULL;
    size_t bytes = 0;
    ucs_status_t status = ucp_worker_get_address(link->worker, &address, &bytes);
    if (status != UCS_OK) {
        return failed(diag, WHIM_ERR_IO, "tell its address", status);
    }
    bool fits = bytes <= sizeof out->data;
    if (fits) {
        out->bytes = (int32_t)bytes;
        memcpy(out->data, address, bytes);
    } else {
        snprintf(diag->text, sizeof diag->text,
                 "the address of this host has %zu bytes for UCX, and %zu are possible: name one "
                 "network interface",
                 bytes, sizeof out->data);
    }
    ucp_worker_release_address(link->worker, address);
    return fits ? WHIM_ERR_OK : WHIM_ERR_UNSUPPORTED;
}

static whim_err make(whim_link *link, whim_link_address *address, whim_diag *diag)
{
    ucs_status_t status = context_make(link);
    if (status != UCS_OK) {
        const char *device = link->cfg.device;
        bool named = device != NULL && device[0] != '\0';
        snprintf(diag->text, sizeof diag->text, "UCX cannot begin%s%s: %s; %s",
                 named ? " on the interface " : "", named ? device : "", ucs_status_string(status),
                 named ? "--join-device takes the name of one that this machine has"
                       : "it needs a network interface that is up");
        return WHIM_ERR_IO;
    }
    status = worker_make(link);
    if (status != UCS_OK) {
        return failed(diag, WHIM_ERR_IO, "work on any interface", status);
    }
    return address_get(link, address, diag);
}

static whim_err ucx_open(const whim_link_cfg *cfg, whim_link **out, whim_link_address *address,
                         whim_diag *diag)
{
    whim_link *link = calloc(1, sizeof *link);
    peer *peers = calloc((size_t)cfg->n_node, sizeof *peers);
    if (link == NULL || peers == NULL) {
        free(link);
        free(peers);
        snprintf(diag->text, sizeof diag->text, "no memory for a link to %d nodes", cfg->n_node);
        return WHIM_ERR_NO_MEMORY;
    }
    link->cfg = *cfg;
    link->peers = peers;
    whim_err err = make(link, address, diag);
    if (err != WHIM_ERR_OK) {
        ucx_close(link);
        return err;
    }
    *out = link;
    return WHIM_ERR_OK;
}

static void peer_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    peer *p = arg;
    (void)ep;
    lose(p->link, p->node, ucs_status_string(status));
}

static whim_err ucx_connect(whim_link *link, const whim_link_address *addresses, whim_diag *diag)
{
    for (int32_t i = 0; i < link->cfg.n_node; i++) {
        peer *p = &link->peers[i];
        *p = (peer){.link = link, .node = i};
        ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                                UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                  .address = (const ucp_address_t *)addresses[i].data,
                                  .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                  .err_handler = {.cb = peer_failed, .arg = p}};
        ucs_status_t status =
            i == link->cfg.node ? UCS_OK : ucp_ep_create(link->worker, &params, &p->ep);
        if (status != UCS_OK) {
            p->ep = NULL;
            char what[48];
            snprintf(what, sizeof what, "begin a connection to node %d", i);
            return failed(diag, WHIM_ERR_DEVICE, what, status);
        }
    }
    return WHIM_ERR_OK;
}

static void sent(void *ucx_request, ucs_status_t status, void *user)
{
    request *r = user;
    r->link->n_sending--;
    ucp_request_free(ucx_request);
    if (status != UCS_OK) {
        lose(r->link, r->node, ucs_status_string(status));
    }
    request_free(r);
}

static void ucx_send(whim_link *link, int32_t node, const whim_link_head *head, const void *bytes)
{
    peer *p = &link->peers[node];
    if (p->failed || p->ep == NULL) {
        return;
    }
    request *r = request_of(link, node, head);
    if (r == NULL) {
        lose(link, node, "no memory for what is to be sent");
        return;
    }
    ucp_request_param_t param = {.op_attr_mask =
                                     UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = sent,
                                 .user_data = r};
    ucs_status_ptr_t got = ucp_am_send_nbx(p->ep, MESSAGE, &r->head, sizeof r->head, bytes,
                                           (size_t)head->bytes, &param);
    if (got != NULL && !UCS_PTR_IS_ERR(got)) {
        link->n_sending++;
        return;
    }
    request_free(r);
    if (got != NULL) {
        lose(link, node, ucs_status_string(UCS_PTR_STATUS(got)));
    }
}

static bool ucx_poll(whim_link *link)
{
    return ucp_worker_progress(link->worker) != 0;
}

static int ucx_arm(whim_link *link)
{
    return ucp_worker_arm(link->worker) == UCS_OK ? link->fd : -1;
}

static int64_t ucx_n_waiting(const whim_link *link)
{
    return link->n_sending;
}

/* At once, whatever is under way: peers may be gone. */
static void peer_close(whim_link *link, peer *p)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_EP_CLOSE_FLAG_FORCE};
    p->failed = true; /* nobody is told any more */
    ucs_status_ptr_t got = p->ep != NULL ? ucp_ep_close_nbx(p->ep, &param) : NULL;
    if (got != NULL && !UCS_PTR_IS_ERR(got)) {
        for (int32_t i = 0; i < CLOSE_TURNS && ucp_request_check_status(got) == UCS_INPROGRESS;
             i++) {
            ucp_worker_progress(link->worker);
        }
        ucp_request_free(got);
    }
}

static void ucx_close(whim_link *link)
{
    for (int32_t i = 0; link->worker != NULL && i < link->cfg.n_node; i++) {
        peer_close(link, &link->peers[i]);
    }
    for (int32_t i = 0; i < CLOSE_TURNS && link->n_sending + link->n_taking > 0; i++) {
        ucp_worker_progress(link->worker);
    }
    if (link->worker != NULL) {
        ucp_worker_destroy(link->worker);
    }
    if (link->context != NULL) {
        ucp_cleanup(link->context);
    }
    while (link->free != NULL) {
        request *r = link->free;
        link->free = r->next;
        free(r);
    }
    free(link->peers);
    free(link);
}

__attribute__((visibility("default"))) const whim_link_ops WHIM_LINK_SYMBOL = {
    .version = WHIM_VERSION,
    .head_bytes = sizeof(whim_link_head),
    .open = ucx_open,
    .connect = ucx_connect,
    .send = ucx_send,
    .poll = ucx_poll,
    .arm = ucx_arm,
    .n_waiting = ucx_n_waiting,
    .close = ucx_close,
};
