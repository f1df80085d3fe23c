import { McpSessions } from '@dormouse/mcp'
import type { FastifyBaseLogger } from 'fastify'
import type { App, Routes } from '../api/route.ts'
import type { ServerConfig } from '../config/config.ts'
import { mcpRoutes } from './mcp-routes.ts'
import { OwnServer } from './own-server.ts'
import { refuseStrangers } from './refuse-strangers.ts'

export interface Mcp {
  readonly routes: Routes
  /** Once the app listens. */
  open(app: App, url: string): Promise<void>
  /** Before the app is closed. */
  end(): void
  /** After it. */
  close(): Promise<void>
}

export function openMcp(config: ServerConfig, log: FastifyBaseLogger): Mcp {
  const ownServer = new OwnServer()
  const sessions = new McpSessions({
    onInternalError: (err) => log.error({ err }, 'an MCP tool failed'),
    onClientError: (err) => log.debug({ err }, 'an MCP client sent an invalid message'),
  })
  return {
    routes: mcpRoutes({ sessions, ownServer, refuseStrangers: refuseStrangers(config) }),
    open: (app, url) => ownServer.open(app, url),
    end: () => ownServer.end(),
    close: () => sessions.close(),
  }
}
