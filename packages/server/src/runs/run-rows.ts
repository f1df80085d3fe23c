import type { Language, RunId, SandboxId } from '@dormouse/contracts'
import type { RunAnswer } from '@dormouse/contracts/http'
import type { StartRun } from '@dormouse/engine'
import type { SqlValue } from '../store/statement.ts'
import type { KeptCode } from './kept-code.ts'

export interface RunRow {
  /** Row id in the journal. */
  readonly id: number
  readonly sandboxId: SandboxId
  readonly runId: RunId
  readonly context: string
  readonly language: Language
  readonly requestHash: string | undefined
  readonly state: RunAnswer['state']
  readonly startedAt: number
  readonly finishedAt: number | undefined
  readonly exitCode: number | undefined
  /** The journal keeps its request, because the sandbox does not have it yet. */
  readonly isUnsent: boolean
  /** Its size in the journal. */
  readonly bytes: number
  /** Its beginning if `isCodeCut`. Undefined: an older version started it. */
  readonly code: string | undefined
  readonly isCodeCut: boolean
}

/** A row of the table `runs`. */
export interface StoredRow {
  id: number
  sandbox_id: SandboxId
  run_id: RunId
  context: string
  language: Language
  request_hash: string | null
  state: RunAnswer['state']
  started_at: number
  finished_at: number | null
  exit_code: number | null
  is_unsent: 0 | 1
  bytes: number
  code: string | null
  is_code_cut: 0 | 1
}

/** Without the request: a list of queued runs could be large. */
export const COLUMNS =
  'id, sandbox_id, run_id, context, language, request_hash, state, started_at, finished_at, exit_code, bytes, code, is_code_cut, request IS NOT NULL AS is_unsent'

export const INSERT_RUN = `INSERT INTO runs (id, sandbox_id, run_id, context, language, idempotency_key, request_hash,
  state, started_at, request, code, is_code_cut, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, 'queued', ?, ?, ?, ?, ?)`

export interface NewRun {
  readonly sandboxId: SandboxId
  readonly runId: RunId
  readonly context: string
  readonly language: Language
  readonly idempotencyKey: string | undefined
  readonly requestHash: string | undefined
  readonly startedAt: number
  /** Kept while the run waits for its sandbox to wake, so that the next server can start it. */
  readonly request?: StartRun | undefined
  readonly kept: KeptCode
}

export interface FinishedRun {
  readonly id: number
  /** Its size in the journal, and what its code takes of that. */
  readonly bytes: number
  readonly codeBytes: number
  readonly finishedAt: number
}

/** The row of a run that has not begun. */
export function rowOf(run: NewRun, id: number, bytes: number): RunRow {
  return {
    id,
    sandboxId: run.sandboxId,
    runId: run.runId,
    context: run.context,
    language: run.language,
    requestHash: run.requestHash,
    state: 'queued',
    startedAt: run.startedAt,
    finishedAt: undefined,
    exitCode: undefined,
    isUnsent: run.request !== undefined,
    bytes,
    code: run.kept.code,
    isCodeCut: run.kept.isCut,
  }
}

export function toRow(row: StoredRow | undefined): RunRow | undefined {
  if (row === undefined) return undefined
  return {
    id: row.id,
    sandboxId: row.sandbox_id,
    runId: row.run_id,
    context: row.context,
    language: row.language,
    requestHash: row.request_hash ?? undefined,
    state: row.state,
    startedAt: row.started_at,
    finishedAt: row.finished_at ?? undefined,
    exitCode: row.exit_code ?? undefined,
    isUnsent: row.is_unsent === 1,
    bytes: row.bytes,
    code: row.code ?? undefined,
    isCodeCut: row.is_code_cut === 1,
  }
}

/** Parameters of `INSERT_RUN`. */
export function valuesOf(run: NewRun, id: number, bytes: number): readonly SqlValue[] {
  return [
    id,
    run.sandboxId,
    run.runId,
    run.context,
    run.language,
    run.idempotencyKey ?? null,
    run.requestHash ?? null,
    run.startedAt,
    run.request === undefined ? null : JSON.stringify(run.request),
    run.kept.code,
    run.kept.isCut ? 1 : 0,
    bytes,
  ]
}
