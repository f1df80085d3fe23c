import { DormouseError, ERRORS, type ErrorCode } from '@dormouse/contracts'
import type { ErrorAnswer } from '@dormouse/contracts/http'
import type { FastifyBaseLogger, FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import type { PreviewResponse } from './preview/preview-message.ts'

export interface ErrorAnswers {
  /** The part of a failure that a caller may see. */
  body(error: DormouseError, requestId: string): ErrorAnswer
  send(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply
  /** For requests outside the framework. Pre: nothing of the answer was sent. */
  write(error: unknown, requestId: string, response: PreviewResponse, log: FastifyBaseLogger): void
}

export interface ErrorAnswerOptions {
  /** URL of the page that explains the error codes; `#code` is added. */
  readonly docsUrl: string
  /** Prefixes of host paths that callers must not see. */
  readonly hostPaths: readonly string[]
}

/** The only place that writes error answers. */
export function errorAnswers({ docsUrl, hostPaths }: ErrorAnswerOptions): ErrorAnswers {
  const hide = hidePaths(hostPaths)

  const body = (error: DormouseError, requestId: string): ErrorAnswer => ({
    error: {
      code: error.code,
      // The log has the details of internal errors, under this request id.
      message: error.code === 'internal' ? 'something went wrong inside the server' : hide(error.message),
      hint: hide(error.hint),
      requestId,
      docs: `${docsUrl}#${error.code}`,
      ...(Object.keys(error.details).length === 0 || error.code === 'internal'
        ? {}
        : { details: JSON.parse(hide(JSON.stringify(error.details))) }),
    },
  })

  return {
    body,
    send: (thrown, request, reply) => {
      const error = toDormouseError(thrown)
      // The log is for what the operator has to know, not for mistakes of callers.
      if (isForTheOperator(error)) request.log.error({ err: thrown }, 'request failed')
      const retryAfterMs = error.details['retryAfterMs']
      if (typeof retryAfterMs === 'number') {
        reply.header('retry-after', Math.max(1, Math.ceil(retryAfterMs / 1000)))
      }
      if (error.code === 'unauthorized') reply.header('www-authenticate', 'Bearer')
      return (
        reply
          .code(error.status)
          // A malformed URL is refused before the hook that sets this.
          .header('x-request-id', request.id)
          .header('content-type', 'application/json; charset=utf-8')
          .send(JSON.stringify(body(error, request.id)))
      )
    },
    write: (thrown, requestId, response, log) => {
      const error = toDormouseError(thrown)
      if (isForTheOperator(error)) log.error({ requestId, err: thrown }, 'request failed')
      const retryAfterMs = error.details['retryAfterMs']
      if (typeof retryAfterMs === 'number')
        response.setHeader('retry-after', Math.max(1, Math.ceil(retryAfterMs / 1000)))
      if (error.code === 'unauthorized') response.setHeader('www-authenticate', 'Bearer')
      const text = JSON.stringify(body(error, requestId))
      response
        .writeHead(error.status, {
          'x-request-id': requestId,
          'content-type': 'application/json; charset=utf-8',
          'content-length': Buffer.byteLength(text),
        })
        .end(text)
    },
  }
}

const FRAMEWORK_CODES: Record<string, { code: ErrorCode; message: string }> = {
  FST_ERR_BAD_URL: { code: 'invalid_argument', message: 'path: is not a valid address' },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    code: 'unsupported_media_type',
    message: 'the content type of the body is not one that this route takes',
  },
  FST_ERR_CTP_BODY_TOO_LARGE: { code: 'too_large', message: 'body: is too large' },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    code: 'invalid_argument',
    message: 'body: is not as long as `Content-Length` says',
  },
  FST_ERR_MAX_PARAM_LENGTH: { code: 'invalid_argument', message: 'path: a part of it is too long' },
  FST_ERR_ASYNC_CONSTRAINT: { code: 'invalid_argument', message: 'the request is not valid' },
}

/** Other errors are either the framework's verdict on the request, or a bug. */
export function toDormouseError(thrown: unknown): DormouseError {
  if (thrown instanceof DormouseError) return thrown
  const known = FRAMEWORK_CODES[(thrown as FastifyError | undefined)?.code ?? '']
  if (known !== undefined) return new DormouseError(known.code, known.message, { cause: thrown })
  return new DormouseError('internal', ERRORS.internal.hint, { cause: thrown })
}

/** Closed ports and sleeping sandboxes concern the caller, not the operator. */
export const isForTheOperator = ({ status, code }: DormouseError): boolean =>
  status >= 500 && code !== 'port_closed' && code !== 'run_unfinished'

function hidePaths(hostPaths: readonly string[]): (text: string) => string {
  if (hostPaths.length === 0) return (text) => text
  const escaped = hostPaths.map((path) => path.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  const pattern = new RegExp(`(?:${escaped.join('|')})[^\\s"'\`,;:)\\]]*`, 'g')
  return (text) => text.replace(pattern, '(a path on the host)')
}
