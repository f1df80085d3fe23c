// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.
import type { CreateJobBody } from './jobs.ts'

export type CreateScheduleBody = {
  name: string
  cron: string
  timezone?: string | undefined
  missed?: 'once' | 'skip' | undefined
  enabled?: boolean | undefined
  action:
    | {
        type: 'run'
        sandbox: string
        code: string
        language?: 'bash' | 'javascript' | 'python' | 'r' | 'typescript'
        context?: string
        timeoutMs?: number
      }
    | { type: 'job'; job: CreateJobBody }
    | {
        method?: 'DELETE' | 'GET' | 'PATCH' | 'POST' | 'PUT' | undefined
        path?: string | undefined
        headers?: Record<string, string>
        body?: string
        type: 'request'
        sandbox: string
        port: number
      }
    | {
        method?: 'DELETE' | 'GET' | 'PATCH' | 'POST' | 'PUT' | undefined
        path?: string | undefined
        headers?: Record<string, string>
        body?: string
        type: 'service'
        service: string
      }
}

export type FiringAnswer = {
  at: string
  state: 'done' | 'failed' | 'pending'
  jobId?: string | undefined
  sandboxId?: string | undefined
  runId?: string | undefined
  status?: number | undefined
  error?: string | undefined
  finishedAt?: string | undefined
}

export type FiringListAnswer = { items: readonly FiringAnswer[] }

export type ScheduleAnswer = {
  name: string
  cron: string
  timezone: string
  missed: 'once' | 'skip'
  enabled: boolean
  action: Record<string, unknown>
  createdAt: string
  nextAt?: string | undefined
  last?: FiringAnswer | undefined
}

export type SchedulePageAnswer = { items: readonly ScheduleAnswer[]; nextCursor?: string | undefined }

export type UpdateScheduleBody = {
  cron?: string
  timezone?: string
  missed?: 'once' | 'skip'
  enabled?: boolean
  action?:
    | {
        type: 'run'
        sandbox: string
        code: string
        language?: 'bash' | 'javascript' | 'python' | 'r' | 'typescript'
        context?: string
        timeoutMs?: number
      }
    | { type: 'job'; job: CreateJobBody }
    | {
        method?: 'DELETE' | 'GET' | 'PATCH' | 'POST' | 'PUT' | undefined
        path?: string | undefined
        headers?: Record<string, string>
        body?: string
        type: 'request'
        sandbox: string
        port: number
      }
    | {
        method?: 'DELETE' | 'GET' | 'PATCH' | 'POST' | 'PUT' | undefined
        path?: string | undefined
        headers?: Record<string, string>
        body?: string
        type: 'service'
        service: string
      }
}
