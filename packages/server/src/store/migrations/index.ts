import type { Migration } from '../migrate.ts'
import { sql as sandboxes } from './0001-sandboxes.ts'
import { sql as keys } from './0002-keys.ts'
import { sql as templates } from './0003-templates.ts'
import { sql as volumes } from './0004-volumes.ts'
import { sql as ports } from './0005-ports.ts'
import { sql as disk } from './0006-disk.ts'
import { sql as network } from './0007-network.ts'
import { sql as secrets } from './0008-secrets.ts'
import { sql as sshKeys } from './0009-ssh-keys.ts'
import { sql as remains } from './0010-remains.ts'
import { sql as headOf } from './0011-head-of.ts'
import { sql as sshKeysConfirmed } from './0012-ssh-keys-confirmed.ts'
import { sql as scrub } from './0013-scrub.ts'
import { sql as templateBuilds } from './0014-template-builds.ts'
import { sql as diskLimits } from './0015-disk-limits.ts'
import { sql as snapshotNames } from './0016-snapshot-names.ts'
import { sql as background } from './0017-background.ts'
import { sql as wakeOnTimer } from './0018-wake-on-timer.ts'
import { sql as memoryLimit } from './0019-memory-limit.ts'
import { sql as e2bSandboxes } from './0020-e2b-sandboxes.ts'
import { sql as sessions } from './0021-sessions.ts'
import { sql as images } from './0022-images.ts'
import { sql as e2bItems } from './0023-e2b-items.ts'
import { sql as services } from './0024-services.ts'
import { sql as snapshotVariables } from './0025-snapshot-variables.ts'
import { sql as connections } from './0026-connections.ts'
import { sql as checkpoints } from './0027-checkpoints.ts'
import { sql as volumeShares } from './0028-volume-shares.ts'
import { sql as isolation } from './0029-isolation.ts'
import { sql as templateIsolation } from './0030-template-isolation.ts'
import { sql as clusterHost } from './cluster-0001-host.ts'
import { sql as clusterState } from './cluster-0002-state.ts'
import { sql as clusterSnapshots } from './cluster-0003-snapshots.ts'
import { sql as clusterServices } from './cluster-0004-services.ts'
import { sql as jobs } from './jobs-0001-jobs.ts'
import { sql as schedules } from './jobs-0002-schedules.ts'
import { sql as webhooks } from './jobs-0003-webhooks.ts'
import { sql as sandboxPer } from './jobs-0004-sandbox-per.ts'
import { sql as workers } from './jobs-0005-workers.ts'
import { sql as runs } from './journal-0001-runs.ts'
import { sql as usage } from './journal-0002-usage.ts'
import { sql as runRequests } from './journal-0003-run-requests.ts'
import { sql as bytes } from './journal-0004-bytes.ts'
import { sql as code } from './journal-0005-code.ts'
import { sql as savedTokens } from './journal-0006-saved-tokens.ts'
import { sql as serviceLog } from './journal-0007-service-log.ts'
import { sql as recordedAt } from './journal-0008-recorded-at.ts'

/** state.db: what a power cut must not take. */
export const stateMigrations: readonly Migration[] = [
  { name: '0001-sandboxes', sql: sandboxes },
  { name: '0002-keys', sql: keys },
  { name: '0003-templates', sql: templates },
  { name: '0004-volumes', sql: volumes },
  { name: '0005-ports', sql: ports },
  { name: '0006-disk', sql: disk },
  { name: '0007-network', sql: network },
  { name: '0008-secrets', sql: secrets },
  { name: '0009-ssh-keys', sql: sshKeys },
  { name: '0010-remains', sql: remains },
  { name: '0011-head-of', sql: headOf },
  { name: '0012-ssh-keys-confirmed', sql: sshKeysConfirmed },
  { name: '0013-scrub', sql: scrub },
  { name: '0014-template-builds', sql: templateBuilds },
  { name: '0015-disk-limits', sql: diskLimits },
  { name: '0016-snapshot-names', sql: snapshotNames },
  { name: '0017-background', sql: background },
  { name: '0018-wake-on-timer', sql: wakeOnTimer },
  { name: '0019-memory-limit', sql: memoryLimit },
  { name: '0020-e2b-sandboxes', sql: e2bSandboxes },
  { name: '0021-sessions', sql: sessions },
  { name: '0022-images', sql: images },
  { name: '0023-e2b-items', sql: e2bItems },
  { name: '0024-services', sql: services },
  { name: '0025-snapshot-variables', sql: snapshotVariables },
  { name: '0026-connections', sql: connections },
  { name: '0027-checkpoints', sql: checkpoints },
  { name: '0028-volume-shares', sql: volumeShares },
  { name: '0029-isolation', sql: isolation },
  { name: '0030-template-isolation', sql: templateIsolation },
]

/** journal.db: the events of runs. */
export const journalMigrations: readonly Migration[] = [
  { name: '0001-runs', sql: runs },
  { name: '0002-usage', sql: usage },
  { name: '0003-run-requests', sql: runRequests },
  { name: '0004-bytes', sql: bytes },
  { name: '0005-code', sql: code },
  { name: '0006-saved-tokens', sql: savedTokens },
  { name: '0007-service-log', sql: serviceLog },
  { name: '0008-recorded-at', sql: recordedAt },
]

/** jobs.db: jobs with their tasks and results, schedules, events and webhooks. */
export const jobMigrations: readonly Migration[] = [
  { name: '0001-jobs', sql: jobs },
  { name: '0002-schedules', sql: schedules },
  { name: '0003-webhooks', sql: webhooks },
  { name: '0004-sandbox-per', sql: sandboxPer },
  { name: '0005-workers', sql: workers },
]

/** cluster.db: what a host of a cluster remembers of itself. */
export const clusterMigrations: readonly Migration[] = [
  { name: '0001-host', sql: clusterHost },
  { name: '0002-state', sql: clusterState },
  { name: '0003-snapshots', sql: clusterSnapshots },
  { name: '0004-services', sql: clusterServices },
]
