/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The physics and the control law. A buck converter with a filter of a coil and a capacitor in
 * front of its load, averaged over the periods of its switch:
 *
 *     L di/dt = duty * V_in - R_L i - v        C dv/dt = i - v / R
 *
 * The controller is a PI controller that adds to the duty cycle that it set last, so that it stays
 * sound where that meets its limits (Corradini and others, "Digital Control of High-Frequency
 * Switched-Mode Power Converters", 2015). The paper does not state its parameters; these are chosen
 * for what it does state: the output settles for periods up to 40 us, and not for longer ones. The
 * load damps the filter, and every delay in the loop takes from that damping.
 */
#include "power.h"

#define VOLTS_IN 48.0
#define HENRY 220e-6
#define FARAD 47e-6
#define COIL_OHM 0.05
#define LOAD_OHM 4.0
#define TOLERANCE 0.02      /* of the parts */

#define PROPORTIONAL (1.0 / 24)     /* duty per volt */
#define INTEGRAL 50.0               /* duty per volt and second */

enum { PARTS = 5, SUBSTEPS = 10 };

/* Coils and capacitors of unlike deviation, so that no two of 20 converters are the same. */
void power_plant_init(struct power_plant *p, int number)
{
    double coil = (double)(number % PARTS) / (PARTS - 1) * 2 - 1;
    double capacitor = (double)(number / PARTS % PARTS) / (PARTS - 1) * 2 - 1;

    *p = (struct power_plant){
        .henry = HENRY * (1 + TOLERANCE * coil),
        .farad = FARAD * (1 + TOLERANCE * capacitor),
    };
}

/* Euler's method with the new current: an oscillation neither grows nor shrinks by it. */
void power_plant_step(struct power_plant *p, double duty)
{
    const double dt = (double)POWER_STEP_NS * 1e-9 / SUBSTEPS;

    for (int i = 0; i < SUBSTEPS; i++) {
        p->amps += dt / p->henry * (duty * VOLTS_IN - COIL_OHM * p->amps - p->volts);
        p->volts += dt / p->farad * (p->amps - p->volts / LOAD_OHM);
    }
}

/* As if it had been at rest at 0 V for long: the first update does not jump. */
void power_control_init(struct power_control *c)
{
    *c = (struct power_control){ .error = POWER_VOLTS };
}

double power_control_update(struct power_control *c, double volts, int64_t period_ns)
{
    double error = POWER_VOLTS - volts;

    c->duty += PROPORTIONAL * (error - c->error) + INTEGRAL * (double)period_ns * 1e-9 * error;
    c->duty = c->duty < 0 ? 0 : c->duty > 1 ? 1 : c->duty;
    c->error = error;
    return c->duty;
}
