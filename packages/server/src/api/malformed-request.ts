import type { Socket } from 'node:net'
import { DormouseError } from '@dormouse/contracts'
import type { ConnectionError, FastifyInstance } from 'fastify'
import type { ErrorAnswers } from './error-answer.ts'

/** Malformed requests never reach a route; they get an error answer of the same shape. */
export function answerMalformedRequests(answers: ErrorAnswers) {
  return function (this: FastifyInstance, error: ConnectionError, socket: Socket): void {
    if (error.code === 'ECONNRESET' || socket.destroyed) return
    const answer = errorOf(error)
    const body = JSON.stringify(answers.body(answer, 'none'))
    if (socket.writable) {
      socket.write(
        `HTTP/1.1 ${answer.status} Refused\r\nContent-Type: application/json; charset=utf-8\r\n` +
          `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
      )
    }
    socket.destroySoon()
  }
}

function errorOf({ code }: ConnectionError): DormouseError {
  if (code === 'HPE_HEADER_OVERFLOW')
    return new DormouseError('headers_too_large', 'the headers are too large')
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new DormouseError('request_timeout', 'the request did not arrive in time')
  }
  return new DormouseError('invalid_argument', 'this is not a valid HTTP request')
}
