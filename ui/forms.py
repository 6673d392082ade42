"""The pages that have a form: their choices live in ui.form, their fields beside what they show."""

from collections.abc import Mapping

from ui.disaggregation.form import DISAGGREGATION
from ui.form import Form
from ui.memory.form import KV_MEMORY
from ui.real.form import REAL_ENGINE
from ui.six_ways.form import SIX_WAYS

FORMS: Mapping[str, Form] = {
    form.page: form for form in (SIX_WAYS, KV_MEMORY, DISAGGREGATION, REAL_ENGINE)
}
