// Figures as people read them.

const digits = (value: number) => value.toLocaleString('en', { maximumSignificantDigits: 3 })

function scaled(value: number, base: number, units: string[]): string {
  let i = 0
  while (value >= base && i < units.length - 1) {
    value /= base
    i++
  }
  return `${digits(value)} ${units[i]}`.trim()
}

export const bytes = (value: number) => scaled(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'])
export const perSecond = (value: number) => scaled(value, 1000, ['B/s', 'kB/s', 'MB/s', 'GB/s'])
export const seconds = (value: number) => (value < 1 ? `${digits(value * 1000)} ms` : `${digits(value)} s`)

/** An amount of a resource: bytes for memory and storage, else a number. */
export function amount(resource: string, value: number): string {
  const isBytes = /memory|storage|hugepages/.test(resource)
  return isBytes ? bytes(value) : value.toLocaleString('en', { maximumFractionDigits: 3 })
}

/** The time of day, with the date if it is not today. */
export function clock(at: number): string {
  const when = new Date(at * 1000)
  const time = when.toLocaleTimeString('en-GB')
  return when.toDateString() === new Date().toDateString() ? time : `${when.toLocaleDateString('en-CA')} ${time}`
}

export const plural = (n: number, one: string, many = one + 's') => `${n.toLocaleString('en')} ${n === 1 ? one : many}`
