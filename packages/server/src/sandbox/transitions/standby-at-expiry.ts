import type { Sandbox } from '../sandbox.ts'
import { requireExists } from '../sandbox-errors.ts'
import { untilExpiry } from '../why.ts'
import { standby } from './standby.ts'

/**
 * Puts a sandbox to standby because its time is over, whatever it does. That happens once: a sandbox that is woken
 * afterwards stays awake. Does nothing if its time was extended meanwhile.
 */
export async function standbyAtExpiry(sandbox: Sandbox): Promise<void> {
  await sandbox.exclusive(async () => {
    requireExists(sandbox)
    if ((untilExpiry(sandbox) ?? 1) > 0) return
    await standby(sandbox, { tier: 'frozen', cause: 'expired' })
    sandbox.write({
      fields: { expires: undefined },
      entry: { event: 'changed', cause: 'expired', detail: 'expires' },
    })
  })
}
