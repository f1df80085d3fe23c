import { hasErrorCode } from '@dormouse/contracts'
import type { LiveService } from './live-service.ts'

/** Gives replicas the policy that the settings of their service say. New ones have it from the start. */
export async function matchPolicy({ row, replicas }: Pick<LiveService, 'row' | 'replicas'>): Promise<void> {
  const { checkpointEveryMs = 0 } = row.settings
  for (const { sandbox } of replicas) {
    try {
      if (sandbox.view().checkpointEveryMs !== checkpointEveryMs) await sandbox.update({ checkpointEveryMs })
    } catch (error) {
      // It is being deleted.
      if (!hasErrorCode(error, 'not_found')) throw error
    }
  }
}
