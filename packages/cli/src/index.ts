export { type CommandOutput, type DoctorCommand, doctorCommand, formatChecks } from './doctor-command.ts'
export { type KeyCommand, keyCommand } from './key-command.ts'
export { KEY_USAGE } from './keys/key-arguments.ts'
