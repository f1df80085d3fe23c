import type { UsageAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'

/** What is counted of one sandbox, and in total. */
export type UsageNumbers = UsageAnswer['total']

export interface Usage {
  report(
    query: { from?: string | undefined; to?: string | undefined; sandboxId?: string | undefined },
    caller: Caller,
    /** Only what this host of the cluster has counted. */
    options?: { readonly isLocal: boolean },
  ): Promise<UsageAnswer>
}
