import type { SandboxAnswer } from '@dormouse/contracts/http'
import { ENVD_VERSION } from '../envd/envd.ts'
import type { SandboxRecord } from '../sandbox/record.ts'
import { stateOf } from '../sandbox/state.ts'

const MIB = 1024 * 1024
const CLIENT_ID = 'dormouse'

/** What create, connect and fork answer. */
export function connectionView(record: SandboxRecord, domain: string | undefined): object {
  return {
    templateID: record.template,
    sandboxID: record.sandboxId,
    clientID: CLIENT_ID,
    envdVersion: ENVD_VERSION,
    ...(record.accessToken !== undefined && { envdAccessToken: record.accessToken }),
    trafficAccessToken: record.trafficToken ?? null,
    domain: domain ?? null,
  }
}

export function listView(record: SandboxRecord, view: SandboxAnswer): object {
  const { limits, metadata, volumes } = view
  return {
    templateID: record.template,
    alias: record.template,
    sandboxID: record.sandboxId,
    clientID: CLIENT_ID,
    startedAt: new Date(record.startedAtMs).toISOString(),
    endAt: new Date(record.endAtMs).toISOString(),
    cpuCount: Math.max(1, Math.round(limits.cpus)),
    memoryMB: Math.floor(limits.memoryBytes / MIB),
    diskSizeMB: Math.floor(limits.diskBytes / MIB),
    metadata,
    state: stateOf(record, view, Date.now()),
    envdVersion: ENVD_VERSION,
    volumeMounts: volumes.map(({ volume, path }) => ({ name: volume, path })),
  }
}

export function detailView(record: SandboxRecord, view: SandboxAnswer, domain: string | undefined): object {
  return {
    ...listView(record, view),
    ...(record.accessToken !== undefined && { envdAccessToken: record.accessToken }),
    domain: domain ?? null,
    allowInternetAccess: view.network.mode !== 'none',
    network: record.network ?? {},
    lifecycle: { autoResume: record.autoResume, onTimeout: record.onTimeout },
  }
}
