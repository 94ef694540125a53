"stub"
import json
from pathlib import Path
import pandas as pd
LAYOUT = 1
class RunFolder:
    def __init__(self, path):
        self.path = Path(path); self.runs = pd.DataFrame(columns=['key','status','started','seconds','cpu_seconds','memory','host','error'])
    def refresh(self):
        asked = {}
        for g in sorted((json.loads(p.read_text()) for p in (self.path/'grids').glob('[!.]*.json')), key=lambda g: g['asked']):
            for k, p in g['trials']: asked.setdefault(k, p)
        best = {}
        for d in (self.path/'trials').iterdir():
            f = d/'result.json'
            if f.exists():
                r = json.loads(f.read_text()); k = d.name[:10]
                if k not in best or r['ended'] > best[k]['ended']: best[k] = r
        rows = []
        for k, p in asked.items():
            r = best.get(k)
            rows.append(dict(key=r['key'] if r else k, status=r['status'] if r else 'waiting', **p, **{c: (r or {}).get(c) for c in ('started','seconds','cpu_seconds','memory','host','error')}))
        self.runs = pd.DataFrame(rows) if rows else self.runs
