import { z } from 'zod'
import { setting } from '../setting.ts'
import { MAX_DAYS } from '../value-schemas.ts'

const GIB = 1024 ** 3

/** Jobs: code over many inputs. */
export const jobSettings = {
  jobs: {
    maxTasks: setting(z.int().min(1).max(1_024), ({ cpus }) => Math.max(4, 2 * Math.floor(cpus)), {
      env: 'DORMOUSE_JOBS_MAX_TASKS',
      defaultText: 'twice the number of CPUs, at least 4',
      summary: 'How many tasks of all jobs run at once. The others wait.',
    }),
    keepDays: setting(z.number().positive().max(MAX_DAYS), 7, {
      env: 'DORMOUSE_JOBS_KEEP_DAYS',
      summary: 'For how many days jobs that have ended are kept, with their results.',
    }),
    maxBytes: setting(z.int().min(1024 ** 2), GIB, {
      env: 'DORMOUSE_JOBS_MAX_BYTES',
      summary: 'How much the results of all jobs may take. Beyond it, the oldest ended jobs are deleted.',
    }),
  },
}
