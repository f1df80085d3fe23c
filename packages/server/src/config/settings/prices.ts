import { z } from 'zod'
import { setting } from '../setting.ts'

const price = z.number().min(0).max(1e6)

/** Example prices for `GET /v1/usage`; they are not the prices of any provider. */
export const priceSettings = {
  prices: {
    currency: setting(z.string().regex(/^[A-Z]{3}$/, 'must be three capital letters, such as EUR'), 'USD', {
      summary: 'Three letters, for display only.',
    }),
    runningCpuSecond: setting(price, 0.000014, { summary: 'One CPU used for one second.' }),
    memoryGbSecond: setting(price, 0.0000045, { summary: 'One GB of memory used for one second.' }),
    storedGbHour: setting(price, 0.0001, {
      summary: 'One GB on disk for one hour; bytes that several sandboxes share count once.',
    }),
    alwaysOnCpuSecond: setting(price, 0.000014, {
      summary:
        "For the comparison: one CPU of a sandbox's limit for one second of its life, asleep or awake.",
    }),
    alwaysOnMemoryGbSecond: setting(price, 0.0000045, {
      summary: "For the comparison: one GB of a sandbox's memory limit for one second of its life.",
    }),
  },
}
