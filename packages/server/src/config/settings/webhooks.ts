import { z } from 'zod'
import { setting } from '../setting.ts'

/** Events to receivers outside. */
export const webhookSettings = {
  webhooks: {
    allowPrivate: setting(z.boolean(), false, {
      env: 'DORMOUSE_WEBHOOKS_ALLOW_PRIVATE',
      summary: 'Let webhooks send to private addresses and to this host.',
      details:
        'Anyone with a key that may run code can then make the server send requests into your network.',
    }),
  },
}
