/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The replay. Both sides record which value of the other they used, so what each should have made
 * of it can be computed again, whenever the values came: the check does not depend on how loaded
 * the machine is. It is exact, since the same functions computed on both occasions. A value that
 * was torn, of the wrong converter or of an earlier run does not pass it.
 */
#include "power.h"

#include <inttypes.h>
#include <stdio.h>

static bool wrong(const struct power_run *run, int number, const char *what, uint32_t at)
{
    fprintf(stderr, "period of %" PRId64 " us, converter %d: %s %" PRIu32 "\n",
            run->period_ns / 1000, number, what, at);
    return false;
}

static bool replay_updates(const struct power_run *run, int number, const struct power_step *step,
                           const struct power_log *log)
{
    struct power_control control;

    power_control_init(&control);
    for (uint32_t u = 1; u <= log->updates; u++) {
        uint32_t s = log->update[u].step;
        double volts = s == 0 ? 0 : step[s].volts;

        if (s >= run->steps || (u > 1 && s <= log->update[u - 1].step))
            return wrong(run, number, "the controller's measurements out of order at update", u);
        if (run->lockstep && s != (u - 1) * run->every)
            return wrong(run, number, "a measurement of another step at update", u);
        if (power_control_update(&control, volts, run->period_ns) != log->update[u].duty)
            return wrong(run, number, "a wrong duty cycle at update", u);
    }
    return true;
}

static bool replay_steps(const struct power_run *run, int number, const struct power_step *step,
                         const struct power_log *log, struct power_age *age)
{
    struct power_plant plant;

    power_plant_init(&plant, number);
    for (uint32_t s = 1; s <= run->steps; s++) {
        uint32_t u = step[s].update;
        uint32_t measured = u == 0 || u > log->updates ? 0 : log->update[u].step;

        if (u > log->updates || (s > 1 && u < step[s - 1].update))
            return wrong(run, number, "the controller's updates out of order at step", s);
        /* What has not happened yet cannot have been measured. */
        if (measured >= s)
            return wrong(run, number, "a measurement from the future at step", s);
        if (run->lockstep && u != (s - 1) / run->every + 1)
            return wrong(run, number, "another update at step", s);
        power_plant_step(&plant, u == 0 ? 0 : log->update[u].duty);
        if (plant.volts != step[s].volts)
            return wrong(run, number, "a wrong voltage at step", s);
        age->sum += s - 1 - measured;
        age->count++;
        age->most = s - 1 - measured > age->most ? s - 1 - measured : age->most;
    }
    return true;
}

bool power_replay(const struct power_run *run, int number, const struct power_step *step,
                  const struct power_log *log, struct power_age *age)
{
    return replay_steps(run, number, step, log, age) && replay_updates(run, number, step, log);
}

void power_model(const struct power_run *run, double *total)
{
    for (int n = 1; n <= run->converters; n++) {
        struct power_plant plant;
        struct power_control control;

        power_plant_init(&plant, n);
        power_control_init(&control);
        for (uint32_t s = 1; s <= run->steps; s++) {
            if ((s - 1) % run->every == 0)
                power_control_update(&control, plant.volts, run->period_ns);
            power_plant_step(&plant, control.duty);
            total[s] += plant.volts;
        }
    }
}
