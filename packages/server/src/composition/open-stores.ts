import { join } from 'node:path'
import type { SandboxRecord } from '@dormouse/e2b'
import { SessionRows } from '../access/session-rows.ts'
import { hostClock } from '../clock/clock.ts'
import { ServerClock } from '../clock/server-clock.ts'
import type { ServerConfig } from '../config/config.ts'
import { ServiceRows } from '../deployments/service-rows.ts'
import { EventRows } from '../fleet/event-rows.ts'
import type { Closing } from '../host/closing.ts'
import { freeRoom } from '../host/host-room.ts'
import { ROOM_FOR_RECORDS, type SpaceReserve } from '../host/space-reserve.ts'
import { JobRows } from '../jobs/job-rows.ts'
import { TaskRows } from '../jobs/task-rows.ts'
import type { Log } from '../log.ts'
import { PortRows } from '../ports/port-rows.ts'
import { JournalUpkeep } from '../runs/journal-upkeep.ts'
import { RunJournal } from '../runs/run-journal.ts'
import { ScheduleRows } from '../schedules/schedule-rows.ts'
import { SecretRows } from '../secrets/secret-rows.ts'
import { SshKeyRows } from '../ssh/key-rows.ts'
import { openDatabase, openSharedDatabase, type SharedDatabase } from '../store/database.ts'
import { E2bItems } from '../store/e2b-items.ts'
import { E2bRows } from '../store/e2b-rows.ts'
import { IntentRows } from '../store/intent-rows.ts'
import { LedgerRows } from '../store/ledger-rows.ts'
import { LineageRows } from '../store/lineage-rows.ts'
import { jobMigrations, journalMigrations, stateMigrations } from '../store/migrations/index.ts'
import { QuarantineRows } from '../store/quarantine-rows.ts'
import { SandboxRows } from '../store/sandbox-rows.ts'
import { ScrubRows } from '../store/scrub-rows.ts'
import { SnapshotRows } from '../store/snapshot-rows.ts'
import { VariableRows } from '../store/variable-rows.ts'
import { StepCache } from '../templates/recipe/step-cache.ts'
import { TemplateCatalog } from '../templates/template-catalog.ts'
import { TemplateRows } from '../templates/template-rows.ts'
import { UsageRows } from '../usage/usage-rows.ts'
import { VolumeRows } from '../volumes/volume-rows.ts'
import { WebhookRows } from '../webhooks/webhook-rows.ts'

/** The share of the disk reserve that only state.db and wakes may use. */
const RESERVE_FOR_RECORDS = 0.5
/** Far more than what the log in front of journal.db holds takes there. */
const LOG_ROOM_BYTES = 8 * 1024 ** 2

export interface OpenStores {
  readonly config: ServerConfig
  readonly reserve: SpaceReserve
  readonly log: Log
}

export type Stores = ReturnType<typeof openStores>

/** Opens the databases, with one object per table, and the clock that continues from what they have recorded. */
export function openStores({ config, reserve, log }: OpenStores, opened: Closing) {
  opened.use(reserve.keepWhole())
  const db = opened.use(
    openDatabase({
      path: join(config.dataDir, 'state.db'),
      migrations: stateMigrations,
      synchronous: 'FULL',
      makeRoom: () => reserve.makeRoom(ROOM_FOR_RECORDS),
    }),
  )
  const journalDb = opened.use(
    openSharedDatabase({
      path: join(config.dataDir, 'journal.db'),
      migrations: journalMigrations,
      synchronous: 'NORMAL',
      // Output of runs must not use up the space that deleting needs.
      makeRoom: () => reserve.makeRoom(ROOM_FOR_RECORDS, { leaves: RESERVE_FOR_RECORDS }),
    }),
  )
  const jobDb = opened.use(
    openDatabase({
      path: join(config.dataDir, 'jobs.db'),
      migrations: jobMigrations,
      synchronous: 'FULL',
      makeRoom: () => reserve.makeRoom(ROOM_FOR_RECORDS, { leaves: RESERVE_FOR_RECORDS }),
    }),
  )
  const usage = new UsageRows(journalDb)
  return {
    ...{ db, journalDb, jobDb },
    clock: new ServerClock({ clock: hostClock, lastRecordedMs: usage.recordedAt, log }),
    journal: opened.use(openJournal(journalDb, config)),
    journalUpkeep: opened.use(new JournalUpkeep(journalDb, log)),
    usage,
    jobs: new JobRows(jobDb),
    tasks: new TaskRows(jobDb),
    schedules: new ScheduleRows(jobDb),
    events: new EventRows(jobDb),
    webhooks: new WebhookRows(jobDb),
    sandboxes: new SandboxRows(db),
    snapshots: new SnapshotRows(db),
    variables: new VariableRows(db),
    lineage: new LineageRows(db),
    intents: new IntentRows(db),
    ledger: opened.use(new LedgerRows(db)),
    damaged: new QuarantineRows(db),
    scrub: new ScrubRows(db),
    sessions: new SessionRows(db),
    secrets: new SecretRows(db),
    volumes: new VolumeRows(db),
    ports: new PortRows(db),
    services: new ServiceRows(db),
    sshKeys: new SshKeyRows(db),
    e2b: new E2bRows<SandboxRecord>(db),
    e2bItems: new E2bItems(db),
    templates: new TemplateCatalog(new TemplateRows(db)),
    buildSteps: new StepCache(db, hostClock.wallMs),
  }
}

function openJournal(db: SharedDatabase, { dataDir }: Pick<ServerConfig, 'dataDir'>): RunJournal {
  const hasRoom = () => freeRoom(dataDir).bytes >= LOG_ROOM_BYTES
  return new RunJournal(db, { logPath: join(dataDir, 'journal.log'), hasRoom })
}
