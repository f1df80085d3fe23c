import type { NetworkReport, Sandbox } from 'dormouse'

const SHOWN_MAX = 10

/** Why the network may have made a run fail, in words for the model. */
export interface NetworkFailures {
  /** What the policy refused. */
  readonly denied: readonly string[]
  /** Names without an address. */
  readonly failedLookups: readonly string[]
}

export const NO_NETWORK_FAILURES: NetworkFailures = { denied: [], failedLookups: [] }

/** What failed since `startedAt`. Empty if the report cannot be read: it only explains a failure. */
export async function networkFailuresSince(
  sandbox: Sandbox,
  startedAt: string,
  signal: AbortSignal,
): Promise<NetworkFailures> {
  try {
    // An older server reports no failed look-ups.
    const { denied, failedLookups = [] } = await sandbox.network({ signal })
    const since = Date.parse(startedAt)
    const isRecent = ({ at }: { readonly at: string }) => Date.parse(at) >= since
    return {
      denied: denied.filter(isRecent).slice(0, SHOWN_MAX).map(describe),
      failedLookups: failedLookups
        .filter(isRecent)
        .slice(0, SHOWN_MAX)
        .map(({ name, reason }) => `${name} (${reason})`),
    }
  } catch {
    return NO_NETWORK_FAILURES
  }
}

function describe({ protocol, name, address, port, reason }: NetworkReport['denied'][number]): string {
  const where = `${name ?? address ?? 'an unknown address'}${port === undefined ? '' : `:${port}`}`
  return `${protocol === 'dns' ? `the name ${where}` : where} (${reason})`
}
