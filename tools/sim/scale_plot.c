/* SPDX-License-Identifier: BSD-3-Clause */

/* A picture of a table: FILE.dat with its numbers, FILE.gp for gnuplot, and what that makes of
 * them. */

#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scale.h"

static FILE *create(const char *file, const char *ending, char **name)
{
    size_t stem = (size_t)(strrchr(file, '.') - file);
    FILE *f;

    *name = malloc(stem + strlen(ending) + 1);
    if (*name == NULL)
        return NULL;
    memcpy(*name, file, stem);
    strcpy(*name + stem, ending);
    f = fopen(*name, "w");
    if (f == NULL)
        fprintf(stderr, "loco-sim scale: %s: %s\n", *name, strerror(errno));
    return f;
}

static void write_data(FILE *to, const struct sim_scale_table *t)
{
    fprintf(to, "# %s, %s, %d calls: operations per call and process, microseconds of a call\n"
            "# processes", t->scenario->name, t->cost->name, t->rounds);
    for (int i = 0; i < SIM_COUNTS; i++)
        fprintf(to, " %s", sim_count_names[i]);
    fprintf(to, " median mean most all theory_operations theory_us\n");
    for (int i = 0; i < t->count; i++) {
        const struct sim_scale_point *p = &t->point[i];
        struct sim_theory theory;
        bool known = sim_theory_of(t->scenario, t->cost, p->processes, &theory);
        double sum = 0;

        if (p->failed)
            continue;
        fprintf(to, "%d", p->processes);
        for (int k = 0; k < SIM_COUNTS; k++)
            fprintf(to, " %.6g", p->mean[k]);
        for (int k = 0; k < SIM_BYTES; k++)
            sum += theory.mean[k];
        fprintf(to, " %.3f %.3f %.3f %.3f", (double)p->median_ns / 1000,
                (double)p->mean_ns / 1000, (double)p->max_ns / 1000, (double)p->all_ns / 1000);
        fprintf(to, known ? " %.6g %.3f\n" : " nan nan\n", sum, theory.ns / 1000);
    }
}

/* A name in gnuplot's single quotes. */
static void quote(FILE *to, const char *text)
{
    fputc('\'', to);
    for (; *text != '\0'; text++)
        fputs(*text == '\'' ? "''" : (char[]){ *text, '\0' }, to);
    fputc('\'', to);
}

static bool is_used(const struct sim_scale_table *t, int which)
{
    for (int i = 0; i < t->count; i++)
        if (t->point[i].mean[which] > 0)
            return true;
    return false;
}

static void write_script(FILE *to, const struct sim_scale_table *t, const char *file,
                         const char *data)
{
    const char *format = strrchr(file, '.') + 1;

    fprintf(to, "# gnuplot script, written by loco-sim scale\nset terminal %s size 1000,420\n"
            "set output ", strcmp(format, "svg") == 0 ? "svg background 'white'" : "png");
    quote(to, file);
    fprintf(to, "\ndata = ");
    quote(to, data);
    fprintf(to, "\nset multiplot layout 1,2 title '%s, network %s' noenhanced\n"
            "set logscale x 2\nset xlabel 'processes'\nset key below\nset grid\n"
            "set yrange [0:*]\nset ylabel 'operations per call and process'\n"
            "plot data using 1:($2+$3+$4+$5) with points pointsize 1.5 title 'all', \\\n"
            "     data using 1:11 with lines linewidth 2 title 'theory'", t->scenario->name,
            t->cost->name);
    for (int i = 0; i < SIM_BYTES; i++)
        if (is_used(t, i))
            fprintf(to, ", \\\n     data using 1:%d with linespoints title '%s'", i + 2,
                    sim_count_names[i]);
    fprintf(to, "\nset ylabel 'microseconds of a call'\n"
            "plot data using 1:7 with linespoints title 'median', \\\n"
            "     data using 1:10 with linespoints title 'first begin to last end', \\\n"
            "     data using 1:12 with lines linewidth 2 title 'theory'\n"
            "unset multiplot\n");
}

/* 0; 1 and a line that says what to do. */
static int run_gnuplot(const char *script)
{
    pid_t child;
    int status = 0;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        execlp("gnuplot", "gnuplot", script, (char *)NULL);
        _exit(errno == ENOENT ? 127 : 126);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0)
        status = 126 << 8;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        fprintf(stderr, "loco-sim scale: there is no gnuplot: install gnuplot-nox, then run\n"
                "gnuplot %s\n", script);
    else
        fprintf(stderr, "loco-sim scale: gnuplot %s has failed\n", script);
    return 1;
}

int sim_scale_plot(const struct sim_scale_table *table, const char *file)
{
    char *data_name = NULL, *script_name = NULL;
    FILE *data = create(file, ".dat", &data_name), *script = NULL;
    int result = 2;

    if (data != NULL)
        script = create(file, ".gp", &script_name);
    if (script != NULL) {
        bool written;

        write_data(data, table);
        write_script(script, table, file, data_name);
        written = ferror(data) == 0 && ferror(script) == 0;
        written = fclose(data) == 0 && written;
        written = fclose(script) == 0 && written;
        if (written)
            result = run_gnuplot(script_name);
        else
            fprintf(stderr, "loco-sim scale: %s cannot be written\n", data_name);
    } else if (data != NULL) {
        fclose(data);
    }
    free(data_name);
    free(script_name);
    return result;
}
