import { ERRORS, isErrorCode } from '@dormouse/contracts'
import type { Draft } from './draft.ts'
import type { OpenApi } from './openapi.ts'
import type { Reply, Request } from './send.ts'

const STACK = /\bat [^\n]{0,200}\((?:file:|node:|\/)[^)\n]+:\d+:\d+\)|\bat (?:file:|node:)[^\n]+:\d+:\d+/
/** What comes from before or beside the routes: any request can have it. */
const ANYWHERE = ['method_not_allowed', 'headers_too_large', 'unauthorized']

export interface Judge {
  readonly api: OpenApi
  /** Beginnings of paths that only the host has. */
  readonly hostPaths: readonly string[]
  /** Ids and names of another tenant. */
  readonly secrets: readonly string[]
}

/** What is wrong with an answer, in words. */
export function faultsOf(
  { api, hostPaths, secrets }: Judge,
  draft: Draft,
  request: Request,
  reply: Reply,
): string[] {
  const text = `${JSON.stringify(reply.headers)}\n${reply.body.toString('utf8')}`
  const sent = `${request.target}\n${request.body ?? ''}`
  const faults = hostPaths.filter((path) => text.includes(path)).map((path) => `shows the host path ${path}`)
  if (STACK.test(text)) faults.push('shows a stack trace')
  if (draft.caller !== 'admin' && draft.caller !== 'other')
    faults.push(
      ...secrets
        .filter((id) => text.includes(id) && !sent.includes(id))
        .map((id) => `shows ${id} of another tenant`),
    )
  if (request.method === 'HEAD') return faults
  if (reply.status >= 400) faults.push(...errorFaults(api, draft, reply))
  else faults.push(...successFaults(api, draft, reply))
  return faults
}

function errorFaults(api: OpenApi, { operation, faults, method }: Draft, reply: Reply): string[] {
  let body: { error: { code: string; requestId: string; hint: string } }
  try {
    body = JSON.parse(reply.body.toString('utf8'))
  } catch {
    return [`is no JSON: ${reply.body.toString('latin1').slice(0, 200)}`]
  }
  const fault = api.faultOfError(body)
  if (fault !== undefined) return [`is no error of ours: ${fault}`]
  const { code, requestId, hint } = body.error
  const found: string[] = []
  if (!isErrorCode(code) || ERRORS[code].status !== reply.status)
    found.push(`${code} is not for ${reply.status}`)
  if (hint === '') found.push('has no hint')
  const id = reply.headers['x-request-id']
  if (id === undefined ? requestId !== 'none' : requestId !== id)
    found.push(`the request ids differ: ${requestId}, ${id}`)
  if (reply.status === 500) found.push('is an inner error')
  const isElsewhere =
    method !== operation.method.toUpperCase() || faults.some((name) => /path|method/.test(name))
  if (isElsewhere || ANYWHERE.includes(code)) return found
  if (!operation.responses[reply.status]?.description?.includes(`\`${code}\``))
    found.push(`${code} (${reply.status}) is not in the document for ${operation.id}`)
  return found
}

function successFaults(api: OpenApi, { operation, method }: Draft, reply: Reply): string[] {
  // Another method of the same address is another operation.
  const answered =
    method === operation.method.toUpperCase()
      ? operation
      : api.operations.find((other) => other.path === operation.path && other.method === method.toLowerCase())
  if (answered === undefined) return [`${method} is not in the document and was granted (${reply.status})`]
  if (answered.responses[reply.status] === undefined) return [`${reply.status} is not in the document`]
  const text = reply.body.toString('utf8')
  if (reply.status === 204 || reply.status === 304) return text === '' ? [] : ['has a body']
  const check = (value: string, type: string): string[] => {
    const fault = api.faultOf(answered, reply.status, type, JSON.parse(value))
    return fault === undefined ? [] : [`is not as the document says: ${fault}: ${value.slice(0, 300)}`]
  }
  if (reply.type === 'application/json') return check(text, reply.type)
  if (reply.type === 'application/x-ndjson')
    return text
      .split('\n')
      .slice(0, -1)
      .flatMap((line) => check(line, reply.type))
  return answered.responses[reply.status].content?.[reply.type] === undefined
    ? [`${reply.type} is not in the document`]
    : []
}
