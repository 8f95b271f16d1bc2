/* SPDX-License-Identifier: BSD-3-Clause */
/* loco-info: what is there. Versions, the node, fabrics and why not, tunables and their origin.
 *
 * Everything is gathered into one struct info and printed by one of two printers, so that text
 * and JSON cannot disagree. */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef LOCO_HAVE_HWLOC
#include <hwloc.h>
#endif

#include <loco/runtime.h>

#include "names/interfaces.h"
#include "fabric/verbs/device.h"
#include "observe/tunables.h"

#define TEXT 256
#define DOMAINS 1024                /* that a device is asked for */
#define MAX_ITEMS (LOCI_TUNABLES_MAX + 96)

/* One line of the report. */
struct item {
    const char *section;        /* "versions", "node", "fabrics", "tunables" */
    char key[TEXT];
    char value[TEXT];
    char note[TEXT];            /* why not; origin of a tunable; or empty */
    const char *help;           /* of a tunable; or NULL */
};

struct info {
    struct item item[MAX_ITEMS];
    int n;
};

__attribute__((format(printf, 4, 5)))
static struct item *add(struct info *info, const char *section, const char *key,
                        const char *fmt, ...)
{
    struct item *item = &info->item[info->n < MAX_ITEMS - 1 ? info->n++ : info->n];
    va_list args;

    memset(item, 0, sizeof *item);
    item->section = section;
    snprintf(item->key, sizeof item->key, "%s", key);
    va_start(args, fmt);
    vsnprintf(item->value, sizeof item->value, fmt, args);
    va_end(args);
    return item;
}

static void note(struct item *item, const char *text)
{
    snprintf(item->note, sizeof item->note, "%s", text);
}

/* ---- versions ---- */

static void add_api(struct info *info, const char *key, unsigned version)
{
    add(info, "versions", key, "%u.%u.%u", version >> 16, (version >> 8) & 255, version & 255);
}

static void add_versions(struct info *info)
{
    struct utsname name;

    add(info, "versions", "release", "%s", PACKAGE_VERSION);
    add_api(info, "api of this program", LOCO_API_VERSION);
    add_api(info, "api of libloco", loco_api_version());
#ifdef LOCO_OPENMPI_VERSION
    add(info, "versions", "built for Open MPI", "%s", LOCO_OPENMPI_VERSION);
    note(add(info, "versions", "component directory", "%s", LOCO_MCA_DIR),
         access(LOCO_MCA_DIR "/mca_osc_loco.so", R_OK) == 0
         ? "Open MPI finds it under loco-run" : "it is not there: make install");
#else
    note(add(info, "versions", "built for Open MPI", "none"), "configured --without-mpi");
#endif
#ifdef LOCO_HAVE_HWLOC
    add(info, "versions", "hwloc", "%u.%u.%u", hwloc_get_api_version() >> 16,
        (hwloc_get_api_version() >> 8) & 255, hwloc_get_api_version() & 255);
#else
    note(add(info, "versions", "hwloc", "none"), "configured --without-hwloc");
#endif
    if (uname(&name) == 0)
        add(info, "versions", "kernel", "%s %s %s", name.sysname, name.release, name.machine);
}

/* ---- node ---- */

#ifdef LOCO_HAVE_HWLOC
static void add_count(struct info *info, hwloc_topology_t topology, const char *key,
                      hwloc_obj_type_t type)
{
    add(info, "node", key, "%d", hwloc_get_nbobjs_by_type(topology, type));
}

static void add_numa_nodes(struct info *info, hwloc_topology_t topology)
{
    hwloc_obj_t node = NULL;

    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != NULL) {
        char key[TEXT], cpus[TEXT];

        hwloc_bitmap_list_snprintf(cpus, sizeof cpus, node->cpuset);
        snprintf(key, sizeof key, "NUMA node %u", node->os_index);
        add(info, "node", key, "%.1f GiB, threads %s",
            (double)node->attr->numanode.local_memory / (1 << 30), cpus);
    }
}

static void add_node(struct info *info)
{
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) != 0)
        return;
    if (hwloc_topology_load(topology) != 0) {
        note(add(info, "node", "topology", "unknown"), "hwloc cannot read it");
        hwloc_topology_destroy(topology);
        return;
    }
    add_count(info, topology, "packages", HWLOC_OBJ_PACKAGE);
    add_count(info, topology, "cores", HWLOC_OBJ_CORE);
    add_count(info, topology, "hardware threads", HWLOC_OBJ_PU);
    add_numa_nodes(info, topology);
    hwloc_topology_destroy(topology);
}
#else
static void add_node(struct info *info)
{
    note(add(info, "node", "hardware threads", "%ld", sysconf(_SC_NPROCESSORS_ONLN)),
         "configured --without-hwloc");
}
#endif

static void add_memory(struct info *info)
{
    double page = (double)sysconf(_SC_PAGESIZE) / (1 << 30);

    add(info, "node", "memory", "%.1f GiB, %.1f GiB free", page * (double)sysconf(_SC_PHYS_PAGES),
        page * (double)sysconf(_SC_AVPHYS_PAGES));
}

static void add_boot_id(struct info *info)
{
    char id[TEXT] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

    if (f == NULL || fgets(id, sizeof id, f) == NULL)
        note(add(info, "node", "boot id", "unknown"), strerror(errno));
    else
        add(info, "node", "boot id", "%.*s", (int)strcspn(id, "\n"), id);
    if (f != NULL)
        fclose(f);
}

/* ---- fabrics ---- */

/* The first line of a small file, or "". */
static void read_line(const char *path, char *line, size_t len)
{
    FILE *f = fopen(path, "r");

    line[0] = '\0';
    if (f == NULL)
        return;
    if (fgets(line, (int)len, f) != NULL)
        line[strcspn(line, "\n")] = '\0';
    fclose(f);
}

static void add_memory_files(struct info *info)
{
    int fd = memfd_create("loco-info", MFD_CLOEXEC);
    struct item *item;

    if (fd < 0) {
        item = add(info, "fabrics", "shm", "not available");
        snprintf(item->note, sizeof item->note, "memfd_create: %s", strerror(errno));
        return;
    }
    close(fd);
    add(info, "fabrics", "shm", "available");
}

/* Whether a process may copy from one that is not its child: as the ranks of a job are to each
 * other. The child tries its parent. */
static int copy_error(void)
{
    static char word[8] = "copied";
    pid_t parent = getpid(), child = fork();
    int status;

    if (child == 0) {
        char buf[sizeof word] = "";
        struct iovec here = { buf, sizeof buf }, there = { word, sizeof word };
        ssize_t n = process_vm_readv(parent, &here, 1, &there, 1, 0);

        _exit(n == (ssize_t)sizeof word && strcmp(buf, "copied") == 0 ? 0 : n < 0 ? errno : EIO);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return errno != 0 ? errno : EIO;
    return WEXITSTATUS(status);
}

static void add_copying(struct info *info)
{
    char scope[16];
    struct item *item;
    int error = copy_error();

    if (error == 0) {
        add(info, "fabrics", "shm: user memory", "copied directly (process_vm_readv)");
        return;
    }
    item = add(info, "fabrics", "shm: user memory", "copied by the owner's service thread");
    read_line("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof scope);
    snprintf(item->note, sizeof item->note, "process_vm_readv: %s%s%s%s", strerror(error),
             scope[0] != '\0' ? " (kernel.yama.ptrace_scope = " : "", scope,
             scope[0] != '\0' ? "; peers are permitted one by one where they can be)" : "");
}

static void add_huge_pages(struct info *info)
{
    char setting[TEXT];
    const char *chosen;

    read_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled", setting, sizeof setting);
    chosen = strchr(setting, '[');
    if (chosen == NULL) {
        note(add(info, "fabrics", "shm: huge pages", "none"), "not in this kernel");
        return;
    }
    note(add(info, "fabrics", "shm: huge pages", "%.*s", (int)strcspn(chosen + 1, "]"),
             chosen + 1), "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
}

/* What the requests of a process may be together; over soft-RoCE `auto` stands for bytes. */
static void add_outstanding(struct info *info, const struct loci_device_port *p,
                            const struct loci_tunables *t)
{
    int64_t bytes = t->rdma_outstanding_bytes;
    char key[2 * TEXT], requests[64] = "no bound of requests", of_bytes[64] = "nor of bytes";

    if (bytes == LOCI_AUTO)
        bytes = p->loses_answers ? (int64_t)LOCI_SOFT_BYTES : LOCI_INFINITE;
    if (t->rdma_outstanding == LOCI_AUTO)
        snprintf(requests, sizeof requests, "as many requests as go best");
    else if (t->rdma_outstanding != LOCI_INFINITE)
        snprintf(requests, sizeof requests, "at most %lld requests",
                 (long long)t->rdma_outstanding);
    if (bytes != LOCI_INFINITE)
        snprintf(of_bytes, sizeof of_bytes, "at most %lld bytes", (long long)bytes);
    else if (t->rdma_outstanding != LOCI_INFINITE)
        snprintf(of_bytes, sizeof of_bytes, "no bound of bytes");
    snprintf(key, sizeof key, "verbs: %.64s:%d outstanding", p->device, p->port);
    note(add(info, "fabrics", key, "%s, %s", requests, of_bytes),
         "of all threads of a process; LOCO_RDMA_OUTSTANDING, LOCO_RDMA_OUTSTANDING_BYTES");
}

/* What the threads of a process share at a device. */
static void add_shared(struct info *info, const struct loci_device_port *p,
                       const struct loci_tunables *tunables)
{
    char key[2 * TEXT];
    int n = p->thread_domains ? loci_device_domains(p->device, DOMAINS) : 0;
    struct item *item;

    snprintf(key, sizeof key, "verbs: %.64s:%d threads", p->device, p->port);
    item = add(info, "fabrics", key,
               n == 0 ? "no thread domains" : "%s%d thread domains of a process",
               n == DOMAINS ? "at least " : "", n);
    note(item, n == 0 ? "all threads of a process share a doorbell, and its lock"
                      : "more threads share them in groups, and a lock for each group");
    add_outstanding(info, p, tunables);
}

static void add_port(struct info *info, const struct loci_device_port *p,
                     const struct loci_tunables *tunables)
{
    static const char *const atomics[] = {
        "no atomics", "atomics of its own", "atomics together with the CPU's"
    };
    char key[2 * TEXT], rate[32] = "", place[64] = "", partition[32] = "";
    struct item *item;

    snprintf(key, sizeof key, "verbs: %.64s:%d", p->device, p->port);
    item = add(info, "fabrics", key, "%s%s", p->gid[0] != '\0' ? p->gid : "no address",
               p->chosen ? ", would be chosen" : "");
    if (!p->ethernet)
        snprintf(partition, sizeof partition, ", partition 0x%x", p->pkey);
    if (p->usable)
        snprintf(item->note, sizeof item->note, "%s, GID %d%s; %s%s", p->gid_kind, p->gid_index,
                 partition, p->chosen ? "" : "not chosen: ", p->chosen ? p->why : p->why_not);
    else
        snprintf(item->note, sizeof item->note, "not used: %s", p->why_not);
    if (p->mtu == 0)
        return;
    if (p->rate > 0)
        snprintf(rate, sizeof rate, ", %g Gb/s", p->rate / 1000.0);
    if (p->nodes[0] != '\0')
        snprintf(place, sizeof place, ", at NUMA node %s", p->nodes);
    snprintf(key, sizeof key, "verbs: %.64s:%d can", p->device, p->port);
    item = add(info, "fabrics", key, "%s%s%s, MTU %u, messages of %llu bytes, %s",
               p->ethernet ? "Ethernet" : "InfiniBand", rate, place, p->mtu,
               (unsigned long long)p->max_message, atomics[p->atomics]);
    snprintf(item->note, sizeof item->note, "%d queue pairs, %d requests each, %d reads and "
             "atomics in flight, %llu bytes of device memory", p->max_queue_pairs,
             p->max_requests, p->read_depth, (unsigned long long)p->device_memory);
    if (p->usable)
        add_shared(info, p, tunables);
}

static void add_verbs(struct info *info, const struct loci_tunables *tunables)
{
    struct loci_device_port list[LOCI_DEVICES_MAX];
    bool usable = false;
    const char *why;
    int n = loci_devices_list(list, LOCI_DEVICES_MAX, tunables, 0, &why);

    for (int i = 0; i < n; i++)
        usable = usable || list[i].chosen;
    note(add(info, "fabrics", "verbs", usable ? "available" : "not available"),
         usable ? "for jobs on several machines, or with LOCO_FABRIC=verbs"
                : n > 0 ? "no device can be used" : why);
    for (int i = 0; i < n; i++)
        add_port(info, &list[i], tunables);
}

/* ---- tcp ---- */

/* Which of the interfaces other machines would be told; 0: why there is none. */
static int tcp_chosen(const struct loci_tunables *tunables,
                      struct tcp_interface list[TCP_INTERFACES], int chosen[LOCI_TCP_PLACES],
                      char why[TEXT])
{
    int n = loci_tcp_interfaces(list), count;
    const char *wrong;

    if (n < 0) {
        snprintf(why, TEXT, "getifaddrs: %s", strerror(errno));
        return 0;
    }
    count = loci_tcp_interfaces_choose(list, n, tunables->tcp_if, chosen, &wrong);
    if (count < 0)
        snprintf(why, TEXT, "LOCO_TCP_IF: \"%.100s\" does not begin with the name of an interface, "
                 "or a network such as 10.0.0.0/8", wrong);
    else if (count == 0)
        snprintf(why, TEXT, "no network interface that is up has an address that "
                 "LOCO_TCP_IF=%.100s allows", tunables->tcp_if);
    return count < 0 ? 0 : count;
}

static void add_tcp_ports(struct info *info, const struct tcp_range_of_ports *ports)
{
    if (ports->first == 0)
        note(add(info, "fabrics", "tcp: ports", "any"), "the system chooses; LOCO_TCP_PORTS");
    else
        note(add(info, "fabrics", "tcp: ports", "%u-%u", ports->first, ports->last),
             "one for each process of this machine; LOCO_TCP_PORTS");
}

static void add_tcp_address(struct info *info, int number, const struct tcp_interface *it)
{
    char key[TEXT], text[TCP_PLACE_TEXT];
    struct item *item;

    snprintf(key, sizeof key, "tcp: address %d", number);
    loci_tcp_place_text(&it->place, text);
    item = add(info, "fabrics", key, "%s", text);
    snprintf(item->note, sizeof item->note, "%s%s", it->name,
             it->loopback ? ", which leads to this machine alone"
             : it->routes ? ", of the default route" : "");
}

/* The places where a process would listen. */
static void add_tcp(struct info *info, const struct loci_tunables *tunables)
{
    struct tcp_interface list[TCP_INTERFACES];
    int chosen[LOCI_TCP_PLACES], count;
    struct tcp_range_of_ports ports;
    char why[TEXT] = "";

    count = tcp_chosen(tunables, list, chosen, why);
    if (!loci_tcp_ports_read(tunables->tcp_ports, &ports)) {
        snprintf(why, sizeof why, "LOCO_TCP_PORTS=%.100s: allowed is auto, or FIRST-LAST within "
                 "1 to 65535", tunables->tcp_ports);
        count = 0;
    }
    note(add(info, "fabrics", "tcp", count > 0 ? "available" : "not available"),
         count > 0 ? "for jobs on several machines without RDMA devices, or with LOCO_FABRIC=tcp"
                   : why);
    for (int i = 0; i < count; i++)
        add_tcp_address(info, i + 1, &list[chosen[i]]);
    if (count > 0)
        add_tcp_ports(info, &ports);
}

/* ---- tunables ---- */

static void log_line(void *ctx, int level, const char *text)
{
    (void)ctx;
    fprintf(stderr, "loco-info: %s: %s\n", loci_log_level_name(level), text);
}

static void add_tunables(struct info *info, const struct loci_tunables *tunables)
{
    size_t n;
    const struct loci_tunable_row *row = loci_tunables_rows(&n);

    for (size_t i = 0; i < n; i++) {
        char value[TEXT], range[TEXT];
        struct item *item;

        loci_tunables_text(tunables, &row[i], value, sizeof value);
        loci_tunables_range(&row[i], range, sizeof range);
        item = add(info, "tunables", row[i].name, "%s", value);
        snprintf(item->note, sizeof item->note, "%s; allowed %.200s",
                 loci_tunables_origin_name(tunables->origin[i]), range);
        item->help = row[i].help;
    }
}

/* ---- printers ---- */

static void print_text(const struct info *info)
{
    const char *section = "";

    for (int i = 0; i < info->n; i++) {
        const struct item *item = &info->item[i];

        if (strcmp(section, item->section) != 0) {
            printf("%s%s\n", i > 0 ? "\n" : "", item->section);
            section = item->section;
        }
        printf("  %-24s %s", item->key, item->value);
        if (item->note[0] != '\0')
            printf("  (%s)", item->note);
        putchar('\n');
        if (item->help != NULL)
            printf("  %24s %s\n", "", item->help);
    }
}

static void print_json_string(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

/* A key that every language can say: of small letters, digits and _; tunables keep their names. */
static void json_key(const char *text, char *key, size_t room)
{
    bool named = strncmp(text, "LOCO_", 5) == 0, gap = false;
    size_t n = 0;

    for (; *text != '\0' && n + 2 < room; text++) {
        if (!isalnum((unsigned char)*text) && !(named && *text == '_')) {
            gap = true;
            continue;
        }
        if (gap && n > 0)
            key[n++] = '_';
        gap = false;
        key[n++] = named ? *text : (char)tolower((unsigned char)*text);
    }
    key[n] = '\0';
}

/* { "versions": { "release": { "value": "0.2.0", "note": "" } ... } ... } */
static void print_json(const struct info *info)
{
    const char *section = "";
    char key[TEXT];

    printf("{");
    for (int i = 0; i < info->n; i++) {
        const struct item *item = &info->item[i];
        bool same = strcmp(section, item->section) == 0;

        if (!same)
            printf("%s\n  \"%s\": {", i > 0 ? "\n  }," : "", item->section);
        printf("%s\n    ", same ? "," : "");
        json_key(item->key, key, sizeof key);
        print_json_string(key);
        printf(": { \"value\": ");
        print_json_string(item->value);
        printf(", \"note\": ");
        print_json_string(item->note);
        printf(" }");
        section = item->section;
    }
    printf("%s\n}\n", info->n > 0 ? "\n  }" : "");
}

/* Keep what one of `n` words is about: its section, or a part of its key, in letters of any size.
 * The first word that is about nothing, or NULL. */
static const char *keep(struct info *info, char **word, int n)
{
    bool wanted[MAX_ITEMS] = { false };
    int kept = 0;

    for (int w = 0; w < n; w++) {
        bool any = false;

        for (int i = 0; i < info->n; i++) {
            const struct item *item = &info->item[i];

            if (strcasecmp(word[w], item->section) == 0 || strcasestr(item->key, word[w]) != NULL)
                any = wanted[i] = true;
        }
        if (!any)
            return word[w];
    }
    for (int i = 0; i < info->n; i++)
        if (wanted[i])
            info->item[kept++] = info->item[i];
    info->n = kept;
    return NULL;
}

static void usage(FILE *to)
{
    fprintf(to,
            "usage: loco-info [--json] [WORD]...\n"
            "Show versions, this node's topology, the fabrics that are available or why not, and\n"
            "the tunables with their values and where these came from. With words: only sections\n"
            "(versions, node, fabrics, tunables) and lines whose name has one of them in it.\n\n"
            "  --json         as JSON\n"
            "  --version      the release\n"
            "  -h, --help     this text\n\n"
            "For example: loco-info tcp; loco-info --json fabrics LOCO_FABRIC\n"
            "Exit status: 0; 1 where a tunable in the environment is wrong; 2 for wrong use.\n");
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "json", no_argument, NULL, 'j' },
        { "version", no_argument, NULL, 'V' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 }
    };
    struct loci_log log = { log_line, NULL, LOCO_LOG_WARN };
    struct loci_tunables tunables;
    static struct info info;
    const char *nothing;
    bool json = false;
    int c, rc;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'j': json = true; break;
        case 'V': printf("loco-info %s\n", PACKAGE_VERSION); return 0;
        case 'h': usage(stdout); return 0;
        default: usage(stderr); return 2;
        }
    }
    rc = loci_tunables_load(&tunables, &log);
    add_versions(&info);
    add_node(&info);
    add_memory(&info);
    add_boot_id(&info);
    add_memory_files(&info);
    add_copying(&info);
    add_huge_pages(&info);
    add_verbs(&info, &tunables);
    add_tcp(&info, &tunables);
    add_tunables(&info, &tunables);
    if (optind < argc && (nothing = keep(&info, argv + optind, argc - optind)) != NULL) {
        fprintf(stderr, "loco-info: no section is called \"%s\", and no line has it in its name;"
                " loco-info without words shows all\n", nothing);
        return 2;
    }
    (json ? print_json : print_text)(&info);
    return rc != LOCO_OK || ferror(stdout) ? 1 : 0;
}
